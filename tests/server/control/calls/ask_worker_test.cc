#include "server/control/calls/ask_worker.h"

#include <gtest/gtest.h>

#include <optional>

#include "server/control/calls/control_options.h"
#include "server/pool/worker_port.h"
#include "tests/server/control/fake_workers.h"

namespace gpupool::server {
namespace {

class AskWorkerTest : public ::testing::Test {
 protected:
  // Asks a worker for its memory and keeps the answer, or the error.
  void AskForMemory() {
    WorkerQuestion question{.device = "cpu:0", .timeout = absl::Seconds(1)};
    question.message.mutable_get_memory()->set_with_summary(true);
    Ask<std::string>(
        context_, std::move(question),
        [this](absl::StatusOr<std::string> answer) { answer_ = answer; },
        [this](const worker::v1::FromWorker& reply) {
          answer_ = reply.memory().summary();
        });
  }

  const ControlOptions options_;
  FakeWorkers workers_;
  ControlContext context_{.options = options_, .workers = &workers_};
  std::optional<absl::StatusOr<std::string>> answer_;
};

TEST_F(AskWorkerTest, HandsTheReplyOn) {
  AskForMemory();
  FakeWorkers::Pending sent;
  ASSERT_TRUE(workers_.NextSend(sent));
  EXPECT_EQ(sent.device, "cpu:0");
  EXPECT_TRUE(sent.message.get_memory().with_summary());
  worker::v1::FromWorker reply;
  reply.mutable_memory()->set_summary("a table");
  sent.callback(reply);
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(**answer_, "a table");
}

TEST_F(AskWorkerTest, AnswersWithTheErrorOfTheWorker) {
  AskForMemory();
  FakeWorkers::Pending sent;
  ASSERT_TRUE(workers_.NextSend(sent));
  sent.callback(absl::UnavailableError("the worker is lost"));
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->status(), absl::UnavailableError("the worker is lost"));
}

TEST_F(AskWorkerTest, IsUnavailableBeforeTheStart) {
  context_.workers = nullptr;
  AskForMemory();
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(answer_->status().code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace gpupool::server
