#include "server/worker_answer.h"

#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

constexpr absl::Duration kLong = absl::Seconds(30);

TEST(WorkerAnswerTest, OutputAndErrorsAreTheAnswer) {
  const auto answer =
      AskWorker({"/bin/sh", "-c", "echo out; echo err >&2; exit 4"}, kLong);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->end, "exit code 4");
  EXPECT_EQ(answer->text, "out\nerr\n");
}

TEST(WorkerAnswerTest, OneThatIsNotThereIsUnavailable) {
  EXPECT_TRUE(absl::IsUnavailable(AskWorker({"/no/where"}, kLong).status()));
}

TEST(WorkerAnswerTest, OneThatDoesNotAnswerIsEnded) {
  const auto answer = AskWorker({"/bin/sleep", "1000"}, absl::Milliseconds(20));
  EXPECT_TRUE(absl::IsDeadlineExceeded(answer.status())) << answer.status();
}

TEST(WorkerAnswerTest, TheCallerMayGiveUp) {
  int asked = 0;
  const auto answer =
      AskWorker({"/bin/sleep", "1000"}, kLong, [&] { return ++asked > 2; });
  EXPECT_TRUE(absl::IsCancelled(answer.status())) << answer.status();
}

}  // namespace
}  // namespace gpupool::server
