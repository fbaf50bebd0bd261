#include "server/clock.h"

#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

class SteadyClockTest : public ::testing::Test {
 protected:
  absl::Time wall_ = absl::FromUnixSeconds(1800000000);
  absl::Duration steady_ = absl::Hours(3);
  const SteadyClock clock_{[this] { return wall_; },
                           [this] { return steady_; }};
};

TEST_F(SteadyClockTest, BeginsAtTheWallClockAndGoesOnByItself) {
  EXPECT_EQ(clock_.Now(), wall_);
  steady_ += absl::Seconds(5);
  EXPECT_EQ(clock_.Now(), wall_ + absl::Seconds(5));
}

TEST_F(SteadyClockTest, AStepOfTheWallClockIsNoTime) {
  const absl::Time begin = clock_.Now();
  wall_ += absl::Hours(24 * 400);
  EXPECT_EQ(clock_.Now(), begin);
  wall_ -= absl::Hours(24 * 800);
  EXPECT_EQ(clock_.Now(), begin);
}

TEST_F(SteadyClockTest, AClockThatIsMadeAfterTheStepFollowsIt) {
  wall_ += absl::Hours(24 * 400);
  const SteadyClock later([this] { return wall_; }, [this] { return steady_; });
  EXPECT_EQ(later.Now(), wall_);
}

TEST(MachineClockTest, TheSteadyClockNeverGoesBack) {
  const SteadyClock clock;
  absl::Time last = clock.Now();
  for (int i = 0; i < 1000; ++i) {
    const absl::Time now = clock.Now();
    ASSERT_GE(now, last);
    last = now;
  }
}

}  // namespace
}  // namespace gpupool::server
