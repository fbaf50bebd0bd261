#include "server/worker/job_pace.h"

#include <gtest/gtest.h>

namespace gpupool::server {
namespace {

using std::chrono::milliseconds;
using std::chrono::minutes;
using std::chrono::seconds;
using Time = std::chrono::steady_clock::time_point;

TEST(ReportPaceTest, AThousandAtOnceThenAHundredASecond) {
  ReportPace pace;
  Time now{seconds(100)};
  int taken = 0;
  for (int i = 0; i < 5000; ++i) taken += pace.Take(now);
  EXPECT_EQ(taken, 1000);
  taken = 0;
  for (int i = 0; i < 4000; ++i) taken += pace.Take(now += milliseconds(1));
  EXPECT_NEAR(taken, 400, 1);
  // A pause fills the store again, but not beyond its limit.
  now += minutes(60);
  taken = 0;
  for (int i = 0; i < 5000; ++i) taken += pace.Take(now);
  EXPECT_EQ(taken, 1000);
}

TEST(CheckpointPaceTest, IsDueAfterTheInterval) {
  CheckpointPace pace{minutes(3)};
  Time now{seconds(100)};
  pace.Start(now);
  EXPECT_FALSE(pace.IsDue(now + minutes(3) - milliseconds(1)));
  EXPECT_TRUE(pace.IsDue(now + minutes(3)));
  pace.NoteSaved(now + minutes(3), milliseconds(5));
  EXPECT_FALSE(pace.IsDue(now + minutes(5)));
  EXPECT_TRUE(pace.IsDue(now + minutes(6)));
}

TEST(CheckpointPaceTest, CostsAtMostAHundredthOfTheTime) {
  CheckpointPace pace{minutes(3)};
  const Time now{seconds(100)};
  pace.Start(now);
  pace.NoteSaved(now, seconds(4));
  pace.NoteSaved(now, seconds(1));
  pace.NoteWrite(seconds(2));
  EXPECT_FALSE(pace.IsDue(now + seconds(599)));
  EXPECT_TRUE(pace.IsDue(now + seconds(600)));
}

TEST(CheckpointPaceTest, IsNeverDueWithoutAnInterval) {
  CheckpointPace pace{seconds(0)};
  pace.Start(Time{});
  EXPECT_FALSE(pace.IsDue(Time{} + minutes(100000)));
}

}  // namespace
}  // namespace gpupool::server
