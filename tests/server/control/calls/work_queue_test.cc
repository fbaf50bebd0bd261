#include "server/control/calls/work_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "absl/time/clock.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

Work Nothing() {
  return [](Transaction&) {};
}

TEST(WorkQueueTest, RefusesClientsAtTheLimit) {
  WorkQueue queue(2);
  EXPECT_EQ(queue.TryPush(Nothing()), WorkQueue::Result::kTaken);
  EXPECT_EQ(queue.TryPush(Nothing()), WorkQueue::Result::kTaken);
  EXPECT_EQ(queue.TryPush(Nothing()), WorkQueue::Result::kFull);
  // Events that must not be lost are still accepted.
  EXPECT_EQ(queue.Push(Nothing()), WorkQueue::Result::kTaken);
  EXPECT_EQ(queue.PopBatch(10, absl::Now()).size(), 3u);
}

TEST(WorkQueueTest, MakesWorkersWaitForRoom) {
  WorkQueue queue(1);
  queue.Push(Nothing());
  queue.Push(Nothing());
  std::atomic<bool> pushed = false;
  std::thread worker([&] {
    queue.Push(Nothing());
    pushed = true;
  });
  LetOthersRun();
  EXPECT_FALSE(pushed);
  queue.PopBatch(1, absl::Now());
  worker.join();
  EXPECT_TRUE(pushed);
}

TEST(WorkQueueTest, NeverBlocksItsConsumer) {
  WorkQueue queue(1);
  queue.SetConsumer(std::this_thread::get_id());
  for (int i = 0; i < 10; ++i) queue.Push(Nothing());
  EXPECT_EQ(queue.size(), 10u);
}

TEST(WorkQueueTest, PopReturnsEmptyAtTheDeadline) {
  WorkQueue queue(1);
  EXPECT_TRUE(queue.PopBatch(1, absl::Now() + absl::Milliseconds(5)).empty());
}

TEST(WorkQueueTest, TakesNothingAfterCloseButGivesWhatIsThere) {
  WorkQueue queue(4);
  queue.TryPush(Nothing());
  queue.Close();
  EXPECT_EQ(queue.TryPush(Nothing()), WorkQueue::Result::kClosed);
  EXPECT_EQ(queue.Push(Nothing()), WorkQueue::Result::kClosed);
  EXPECT_FALSE(queue.closed_and_empty());
  EXPECT_EQ(queue.PopBatch(4, absl::InfiniteFuture()).size(), 1u);
  EXPECT_TRUE(queue.closed_and_empty());
}

}  // namespace
}  // namespace gpupool::server
