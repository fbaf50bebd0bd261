#include "server/control/upkeep/clock_watch.h"

#include <gmock/gmock.h>

namespace gpupool::server {
namespace {

using ::testing::HasSubstr;

TEST(ClockWatchTest, EachStepIsToldOnce) {
  ClockWatch watch;
  EXPECT_EQ(watch.Look(absl::Seconds(59)), "");
  EXPECT_THAT(watch.Look(absl::Hours(-2)), HasSubstr("ahead_seconds=-7200"));
  EXPECT_EQ(watch.Look(absl::Hours(-2) - absl::Seconds(1)), "");
  EXPECT_THAT(watch.Look(absl::Hours(24 * 400)),
              HasSubstr("restart the server"));
}

TEST(ClockWatchTest, AClockThatIsRightAgainIsTold) {
  ClockWatch watch;
  EXPECT_NE(watch.Look(absl::Hours(1)), "");
  EXPECT_THAT(watch.Look(absl::ZeroDuration()), HasSubstr("agrees"));
  EXPECT_EQ(watch.Look(absl::ZeroDuration()), "");
}

}  // namespace
}  // namespace gpupool::server
