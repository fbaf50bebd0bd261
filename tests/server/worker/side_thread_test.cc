#include "server/worker/side_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "absl/synchronization/notification.h"

namespace gpupool::server {
namespace {

TEST(SideThreadTest, TasksRunInTheirOrderOnOneOtherThread) {
  std::vector<int> order;  // written by the side thread only
  std::vector<std::thread::id> threads;
  absl::Notification done;
  SideThread side;
  for (int i = 0; i < 3; ++i) {
    side.Post([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  }
  side.Post([&] { done.Notify(); });
  done.WaitForNotification();
  EXPECT_EQ(order, (std::vector<int>{0, 1, 2}));
  for (std::thread::id id : threads) {
    EXPECT_EQ(id, threads[0]);
    EXPECT_NE(id, std::this_thread::get_id());
  }
}

TEST(SideThreadTest, StopWaitsForTheTaskThatRunsAndForgetsTheOthers) {
  absl::Notification begun, go_on;
  std::atomic<bool> ended = false, other = false;
  SideThread side;
  side.Post([&] {
    begun.Notify();
    go_on.WaitForNotification();
    ended = true;
  });
  side.Post([&] { other = true; });
  begun.WaitForNotification();
  std::thread stopper([&] { side.Stop(); });
  go_on.Notify();
  stopper.join();
  EXPECT_TRUE(ended);
  side.Post([&] { other = true; });
  // The second task may have begun before Stop was reached, never after it.
  const bool at_stop = other;
  std::this_thread::yield();
  EXPECT_EQ(other, at_stop);
}

}  // namespace
}  // namespace gpupool::server
