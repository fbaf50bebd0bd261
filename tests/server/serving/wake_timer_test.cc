#include "server/serving/wake_timer.h"

#include <atomic>

#include "absl/synchronization/notification.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/wait_until.h"

namespace gpupool::server {
namespace {

TEST(WakeTimerTest, CallsInTheOrderOfTheTimes) {
  std::vector<int> order;
  absl::Notification done;
  WakeTimer timer;
  const absl::Time start = absl::Now();
  timer.CallAt(start + absl::Milliseconds(30), [&] {
    order.push_back(3);
    done.Notify();
  });
  timer.CallAt(start + absl::Milliseconds(20), [&] { order.push_back(2); });
  timer.CallAt(start + absl::Milliseconds(10), [&] { order.push_back(1); });
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_GE(absl::Now(), start + absl::Milliseconds(30));
  EXPECT_THAT(order, ::testing::ElementsAre(1, 2, 3));
}

TEST(WakeTimerTest, ATimeInThePastRunsAtOnceButOnTheTimersThread) {
  WakeTimer timer;
  absl::Notification done;
  std::thread::id thread;
  timer.CallAt(absl::InfinitePast(), [&] {
    thread = std::this_thread::get_id();
    done.Notify();
  });
  ASSERT_TRUE(done.WaitForNotificationWithTimeout(kPatience));
  EXPECT_NE(thread, std::this_thread::get_id());
}

TEST(WakeTimerTest, ACallbackMaySetTheNextOne) {
  WakeTimer timer;
  absl::Notification done;
  timer.CallAt(absl::Now(),
               [&] { timer.CallAt(absl::Now(), [&] { done.Notify(); }); });
  EXPECT_TRUE(done.WaitForNotificationWithTimeout(kPatience));
}

TEST(WakeTimerTest, TheEndDropsWhatIsNotDue) {
  std::atomic<bool> called{false};
  {
    WakeTimer timer;
    timer.CallAt(absl::Now() + absl::Hours(1), [&] { called = true; });
  }
  EXPECT_FALSE(called);
}

}  // namespace
}  // namespace gpupool::server
