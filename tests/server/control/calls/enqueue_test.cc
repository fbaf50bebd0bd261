#include "server/control/calls/enqueue.h"

#include <gtest/gtest.h>

#include <optional>

#include "absl/time/clock.h"
#include "server/control/calls/control_options.h"
#include "server/control/calls/work_queue.h"

namespace gpupool::server {
namespace {

class EnqueueTest : public ::testing::Test {
 protected:
  Callback<int> Remember() {
    return [this](absl::StatusOr<int> answer) { answer_ = answer.status(); };
  }

  const ControlOptions options_;
  WorkQueue queue_{1};
  const ControlContext context_{.options = options_, .queue = &queue_};
  std::optional<absl::Status> answer_;
};

TEST_F(EnqueueTest, AnswersNothingWhenTheWorkIsTaken) {
  Enqueue<int>(context_, Remember(), [](Transaction&) {});
  EXPECT_FALSE(answer_.has_value());
  EXPECT_EQ(queue_.PopBatch(10, absl::Now()).size(), 1u);
}

TEST_F(EnqueueTest, RefusesWithTheLimitWhenTheQueueIsFull) {
  queue_.Push([](Transaction&) {});
  Enqueue<int>(context_, Remember(), [](Transaction&) {});
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(*answer_, absl::ResourceExhaustedError(
                          "the server's queue is full (1 requests wait); try "
                          "again later"));
}

TEST_F(EnqueueTest, RefusesWhenTheServerStops) {
  queue_.Close();
  Enqueue<int>(context_, Remember(), [](Transaction&) {});
  ASSERT_TRUE(answer_.has_value());
  EXPECT_EQ(*answer_, NotRunning());
}

}  // namespace
}  // namespace gpupool::server
