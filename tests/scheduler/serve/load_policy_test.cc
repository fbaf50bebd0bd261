#include "scheduler/serve/load_policy.h"

#include <gtest/gtest.h>

namespace gpupool::scheduler {
namespace {

class LoadGaugeTest : public ::testing::Test {
 protected:
  // Measures once a second for `time` and returns the last answer.
  bool For(absl::Duration time, absl::Duration wait, double rate) {
    bool under_load = gauge_.under_load();
    for (const absl::Time end = now_ + time; now_ < end;) {
      now_ += absl::Seconds(1);
      under_load = gauge_.Update({wait, rate}, now_);
    }
    return under_load;
  }
  bool Begin() { return For(absl::Seconds(6), absl::Seconds(2), 10); }

  absl::Time now_ = absl::UnixEpoch();
  LoadGauge gauge_{LoadOptions{.target = absl::Seconds(1)}};
};

TEST_F(LoadGaugeTest, BeginsAfterTheWaitHasBeenTooLongForAWhile) {
  EXPECT_FALSE(For(absl::Seconds(5), absl::Seconds(2), 10));
  EXPECT_TRUE(For(absl::Seconds(1), absl::Seconds(2), 10));
}

TEST_F(LoadGaugeTest, OneShortWaitStartsTheTimeAnew) {
  EXPECT_FALSE(For(absl::Seconds(5), absl::Seconds(2), 10));
  EXPECT_FALSE(For(absl::Seconds(1), absl::Seconds(1), 10));
  EXPECT_FALSE(For(absl::Seconds(5), absl::Seconds(2), 10));
}

TEST_F(LoadGaugeTest, AnInterruptionStartsTheTimeAnew) {
  EXPECT_FALSE(For(absl::Seconds(5), absl::Seconds(2), 10));
  gauge_.Interrupt();
  EXPECT_FALSE(For(absl::Seconds(5), absl::Seconds(2), 10));
  EXPECT_TRUE(For(absl::Seconds(1), absl::Seconds(2), 10));
  gauge_.Interrupt();
  EXPECT_TRUE(gauge_.under_load());
}

TEST_F(LoadGaugeTest, DoesNotEndWhileAsManyRequestsCome) {
  ASSERT_TRUE(Begin());
  EXPECT_TRUE(For(absl::Minutes(10), absl::Milliseconds(1), 6));
  EXPECT_TRUE(For(absl::Minutes(10), absl::Milliseconds(600), 1));
}

TEST_F(LoadGaugeTest, EndsWhenItHasBeenCalmForAWhile) {
  ASSERT_TRUE(Begin());
  EXPECT_TRUE(For(absl::Seconds(30), absl::ZeroDuration(), 5));
  EXPECT_FALSE(For(absl::Seconds(1), absl::ZeroDuration(), 5));
}

TEST_F(LoadGaugeTest, ABurstInTheCalmStartsTheTimeAnew) {
  ASSERT_TRUE(Begin());
  EXPECT_TRUE(For(absl::Seconds(30), absl::ZeroDuration(), 0));
  EXPECT_TRUE(For(absl::Seconds(1), absl::ZeroDuration(), 9));
  EXPECT_TRUE(For(absl::Seconds(30), absl::ZeroDuration(), 0));
  EXPECT_FALSE(For(absl::Seconds(1), absl::ZeroDuration(), 0));
}

TEST_F(LoadGaugeTest, EachBurstSoonAfterTheLastIsBelievedForLonger) {
  ASSERT_TRUE(Begin());
  EXPECT_FALSE(For(absl::Seconds(31), absl::ZeroDuration(), 0));
  for (int times : {2, 4, 8, 8}) {
    ASSERT_TRUE(Begin());
    EXPECT_TRUE(For(times * absl::Seconds(30), absl::ZeroDuration(), 0));
    EXPECT_FALSE(For(absl::Seconds(1), absl::ZeroDuration(), 0)) << times;
  }
  For(absl::Minutes(10), absl::ZeroDuration(), 0);
  ASSERT_TRUE(Begin());
  EXPECT_FALSE(For(absl::Seconds(31), absl::ZeroDuration(), 0));
}

TEST_F(LoadGaugeTest, AClockThatWasSetBackStartsTheTimeAnew) {
  EXPECT_FALSE(For(absl::Seconds(5), absl::Seconds(2), 10));
  now_ -= absl::Hours(1);
  EXPECT_FALSE(For(absl::Seconds(5), absl::Seconds(2), 10));
  EXPECT_TRUE(For(absl::Seconds(1), absl::Seconds(2), 10));
}

}  // namespace
}  // namespace gpupool::scheduler
