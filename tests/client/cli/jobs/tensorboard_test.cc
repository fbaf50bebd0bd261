// gpupool logs --tensorboard: what it writes, says and refuses.
#include <nlohmann/json.hpp>
#include <stop_token>
#include <thread>

#include "tests/client/cli/command_test_base.h"
#include "tests/client/testing/event_reader.h"
#include "tests/wait_until.h"

namespace gpupool::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class TensorboardTest : public CommandTest {
 protected:
  TensorboardTest() {
    AddJob(7, "digits", v1::RUNNING);
    SetEvents({StateEvent(1, v1::RUNNING), StepOf(2, 1, 20), StepOf(3, 1, 40),
               LogEvent(4, "compiled"), StepOf(5, 2, 30)});
  }
  ~TensorboardTest() override { std::filesystem::remove_all(folder_); }

  void SetEvents(std::vector<v1::JobEvent> events) {
    absl::MutexLock lock(&server_.state.mutex);
    server_.state.events[7] = std::move(events);
  }

  static v1::JobEvent StepOf(uint64_t sequence, uint32_t attempt,
                             uint64_t step) {
    v1::JobEvent event = ProgressEvent(sequence, step, 100);
    event.set_attempt(attempt);
    event.mutable_time()->set_seconds(static_cast<int64_t>(1000 + sequence));
    return event;
  }

  const std::string folder_ =
      ::testing::TempDir() + "tensorboard_" + std::to_string(::getpid());
};

TEST_F(TensorboardTest, WritesTheStoredCurvesAndEnds) {
  EXPECT_EQ(Run({"logs", "digits", "--tensorboard", folder_}), 0) << err();
  ASSERT_EQ(FilesOf(folder_).size(), 1u);
  const std::string path = FilesOf(folder_).front().string();
  EXPECT_EQ(out(), path +
                       ": 9 points of 3 curves; see them with `tensorboard "
                       "--logdir " +
                       folder_ + "`\n");
  const auto events = ReadEvents(ReadEventBytes(path));
  ASSERT_EQ(events.size(), 6u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_TRUE(events[1].starts_session);
  EXPECT_EQ(events[2].step, 20);
  EXPECT_EQ(events[2].wall_time, 1002);
  EXPECT_EQ(events[2].values.at("loss/training"), 0.25f);
  EXPECT_EQ(events[3].step, 40);
  // The second attempt makes steps again.
  EXPECT_TRUE(events[4].starts_session);
  EXPECT_EQ(events[4].step, 30);
  EXPECT_EQ(events[5].step, 30);
}

TEST_F(TensorboardTest, SaysInJsonWhatItWrote) {
  EXPECT_EQ(Run({"logs", "7", "--tensorboard", folder_, "-o", "json"}), 0);
  const auto said = nlohmann::json::parse(out());
  EXPECT_EQ(said["file"], FilesOf(folder_).front().string());
  EXPECT_EQ(said["points"], 9);
  EXPECT_EQ(said["curves"].size(), 3u);
}

TEST_F(TensorboardTest, FollowsAJobAndWritesBeforeItEnds) {
  ASSERT_EQ(Run({"logs", "7", "--tensorboard", folder_}), 0);
  const auto all = std::filesystem::file_size(FilesOf(folder_).front());
  std::filesystem::remove_all(folder_);
  std::stop_source stop;
  int code = -1;
  std::thread command([&] {
    code = Run({"logs", "7", "--tensorboard", folder_, "-f"}, stop.get_token());
  });
  EXPECT_TRUE(WaitUntil([&] {
    return std::filesystem::exists(folder_) && FilesOf(folder_).size() == 1 &&
           std::filesystem::file_size(FilesOf(folder_).front()) == all;
  }));
  stop.request_stop();
  command.join();
  EXPECT_EQ(code, 130);
  EXPECT_THAT(err(), StartsWith("writing " + folder_));
  EXPECT_THAT(out(), HasSubstr("9 points"));
}

TEST_F(TensorboardTest, FollowsToTheEndOfTheJob) {
  SetEvents({StepOf(1, 1, 5), StateEvent(2, v1::SUCCEEDED)});
  EXPECT_EQ(Run({"logs", "7", "--tensorboard", folder_, "--follow"}), 0);
  EXPECT_EQ(ReadEvents(ReadEventBytes(FilesOf(folder_).front())).back().step,
            5);
}

TEST_F(TensorboardTest, RefusesAFolderThatCannotBeWritten) {
  const std::string file = WriteFile("file", "x");
  EXPECT_NE(Run({"logs", "7", "--tensorboard", file}), 0);
  EXPECT_THAT(err(), HasSubstr("cannot write events to the folder " + file));
  EXPECT_EQ(Run({"logs", "7", "--tensorboard", ""}), 2);
  EXPECT_THAT(err(), HasSubstr("name a folder"));
}

TEST_F(TensorboardTest, MakesNoFolderForAJobThatIsNotThere) {
  EXPECT_EQ(Run({"logs", "99", "--tensorboard", folder_}), 3);
  EXPECT_FALSE(std::filesystem::exists(folder_));
}

}  // namespace
}  // namespace gpupool::client
