#include "server/worker/side_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <thread>
#include <vector>

#include "absl/synchronization/notification.h"

namespace gpupool::server {
namespace {

TEST(SideThreadTest, TasksRunInTheirOrderOnOneOtherThread) {
  std::vector<int> order;  // written by the side thread only
  std::vector<std::thread::id> threads;
  absl::Notification done;
  SideThread side("test");
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
  SideThread side("test");
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
  // The second task may have begun before Stop was reached, but not after it.
  const bool at_stop = other;
  std::this_thread::yield();
  EXPECT_EQ(other, at_stop);
}

TEST(SideThreadTest, FinishRunsAllThatWasPosted) {
  std::vector<int> order;
  {
    SideThread side("test");
    for (int i = 0; i < 5; ++i) {
      side.Post([&order, i] { order.push_back(i); });
    }
    side.Finish();
    EXPECT_EQ(order, (std::vector<int>{0, 1, 2, 3, 4}));
    side.Post([&order] { order.push_back(9); });
  }
  EXPECT_EQ(order.size(), 5u);
}

TEST(SideThreadTest, WaitsUntilFewEnoughAreLeft) {
  absl::Notification first, second;
  std::atomic<int> done = 0;
  SideThread side("test");
  side.WaitUntilLeft(0);
  for (absl::Notification* gate : {&first, &second}) {
    side.Post([&done, gate] {
      gate->WaitForNotification();
      ++done;
    });
  }
  side.WaitUntilLeft(2);
  EXPECT_EQ(done, 0);
  first.Notify();
  side.WaitUntilLeft(1);
  EXPECT_EQ(done, 1);
  second.Notify();
  side.WaitUntilLeft(0);
  EXPECT_EQ(done, 2);
}

TEST(SideThreadTest, WhatATaskHeldIsGoneBeforeItCountsAsEnded) {
  auto held = std::make_shared<int>(1);
  const std::weak_ptr<int> seen = held;
  SideThread side("test");
  side.Post([held = std::move(held)] {});
  side.WaitUntilLeft(0);
  EXPECT_TRUE(seen.expired());
}

}  // namespace
}  // namespace gpupool::server
