#include "server/http/port/handler_pool.h"

#include <atomic>
#include <vector>

#include "absl/synchronization/barrier.h"
#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace gpupool::server {
namespace {

TEST(HandlerPoolTest, RunsAsManyJobsAtATimeAsThereAreThreads) {
  HandlerPool pool(3, 3);
  // None of the jobs ends before the last one has started.
  absl::Barrier* const all = new absl::Barrier(4);
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(pool.Add([all] {
      if (all->Block()) delete all;
    }));
  }
  if (all->Block()) delete all;
}

TEST(HandlerPoolTest, TheQueueIsBounded) {
  absl::Notification started;
  absl::Notification go_on;
  std::atomic<int> done{0};
  {
    HandlerPool pool(1, 2);
    EXPECT_TRUE(pool.Add([&] {
      started.Notify();
      go_on.WaitForNotification();
    }));
    started.WaitForNotification();
    EXPECT_TRUE(pool.Add([&] { ++done; }));
    EXPECT_TRUE(pool.Add([&] { ++done; }));
    EXPECT_FALSE(pool.Add([&] { ++done; }));
    go_on.Notify();
  }
  EXPECT_EQ(done, 2) << "the jobs that wait run before the end";
}

TEST(HandlerPoolTest, JobsOfOneThreadRunInTheirOrder) {
  std::vector<int> order;
  {
    HandlerPool pool(1, 100);
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(pool.Add([&order, i] { order.push_back(i); }));
    }
  }
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
}

}  // namespace
}  // namespace gpupool::server
