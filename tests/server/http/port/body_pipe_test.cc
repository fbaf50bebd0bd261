#include "server/http/port/body_pipe.h"

#include <atomic>
#include <string>
#include <thread>

#include "gtest/gtest.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

TEST(BodyPipeTest, TextsComeInTheirOrderAndThenTheEnd) {
  std::atomic<int> woken{0};
  BodyPipe pipe([&] { ++woken; });
  EXPECT_TRUE(pipe.Write("a"));
  EXPECT_EQ(woken, 1);
  BodyPipe::Taken taken = pipe.Take();
  EXPECT_EQ(taken.text, "a");
  EXPECT_FALSE(taken.finished);
  EXPECT_EQ(pipe.Take().text, "");
  EXPECT_TRUE(pipe.Write("b"));
  pipe.Finish();
  EXPECT_EQ(woken, 3);
  taken = pipe.Take();
  EXPECT_EQ(taken.text, "b");
  EXPECT_TRUE(taken.finished);
}

TEST(BodyPipeTest, AWriterWaitsUntilTheLastTextIsTaken) {
  BodyPipe pipe([] {});
  std::atomic<int> written{0};
  std::thread writer([&] {
    for (int i = 0; i < 3; ++i) {
      EXPECT_TRUE(pipe.Write("x"));
      ++written;
    }
  });
  std::string all;
  EXPECT_TRUE(WaitUntil([&] { return written == 1; }));
  LetOthersRun();
  EXPECT_EQ(written, 1);
  EXPECT_TRUE(WaitUntil([&] {
    all += pipe.Take().text;
    return all == "xxx";
  }));
  writer.join();
}

TEST(BodyPipeTest, AWriterNoticesThatNothingMoreIsTaken) {
  BodyPipe pipe([] {});
  EXPECT_TRUE(pipe.is_open());
  EXPECT_TRUE(pipe.Write("a"));
  std::thread writer([&] { EXPECT_FALSE(pipe.Write("b")); });
  pipe.Close();
  writer.join();
  EXPECT_FALSE(pipe.is_open());
  EXPECT_FALSE(pipe.Write("c"));
}

}  // namespace
}  // namespace gpupool::server
