#include "server/worker/profile/step_schedule.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "gpupool/v1/limits.pb.h"

namespace gpupool::server {
namespace {

StepSchedule ScheduleOf(const std::string& text) {
  v1::ProfileSchedule schedule;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &schedule));
  return StepSchedule(schedule);
}

// Returns a letter for each step: '.' for one that is not timed, 'w' in the
// warm-up, and the cycle's number for a step that is kept.
std::string Steps(const StepSchedule& schedule, uint64_t count) {
  std::string text;
  for (uint64_t step = 1; step <= count; ++step) {
    const ScheduledStep at = schedule.At(step);
    text += !at.timed ? "." : !at.kept ? "w" : std::to_string(at.cycle);
  }
  return text;
}

TEST(StepScheduleTest, SelectsTheStepsOfTorchsSchedule) {
  // Steps that torch.profiler.schedule(wait=3, warmup=1, active=2, repeat=2,
  // skip_first=2) answers with NONE, WARMUP and RECORD.
  EXPECT_EQ(
      Steps(ScheduleOf("skip_first: 2 wait: 3 warmup: 1 active: 2 repeat: 2"),
            18),
      ".....w11...w22....");
  EXPECT_EQ(Steps(ScheduleOf("active: 2 repeat: 3"), 8), "112233..");
  EXPECT_EQ(Steps(ScheduleOf("wait: 1 warmup: 1 active: 1"), 9), ".w1.w2.w3");
}

TEST(StepScheduleTest, CountsTheStepsThatAreLeftInACycle) {
  const StepSchedule schedule =
      ScheduleOf("skip_first: 1 warmup: 1 active: 3 repeat: 2");
  EXPECT_EQ(schedule.At(2).left, 0u) << "the warm-up";
  EXPECT_EQ(schedule.At(3).left, 3u);
  EXPECT_EQ(schedule.At(5).left, 1u);
  EXPECT_EQ(schedule.At(7).left, 3u) << "of the second cycle";
}

TEST(StepScheduleTest, ZerosStandForFiveStepsAndAsManyCyclesAsTheLimitsAllow) {
  const StepSchedule schedule = ScheduleOf("");
  EXPECT_EQ(schedule.At(1).left, uint32_t{v1::DEFAULT_PROFILED_STEPS});
  EXPECT_TRUE(schedule.At(v1::MAX_PROFILED_STEPS).kept);
  EXPECT_FALSE(schedule.At(v1::MAX_PROFILED_STEPS + 1).timed);
  const StepSchedule single = ScheduleOf("active: 1");
  EXPECT_TRUE(single.At(v1::MAX_RECORDED_PROFILES).kept);
  EXPECT_FALSE(single.At(v1::MAX_RECORDED_PROFILES + 1).timed);
}

TEST(StepScheduleTest, NextTimedIsTheFirstOneThatAtSays) {
  const StepSchedule schedules[] = {
      ScheduleOf("skip_first: 2 wait: 3 warmup: 1 active: 2 repeat: 2"),
      ScheduleOf("active: 2 repeat: 3"),
      ScheduleOf("skip_first: 5 warmup: 2 active: 1 repeat: 4"),
      ScheduleOf("wait: 7 active: 1 repeat: 2")};
  for (const StepSchedule& schedule : schedules) {
    for (uint64_t step = 1; step < 40; ++step) {
      uint64_t expected = StepSchedule::kNever;
      for (uint64_t at = step; at < 100; ++at) {
        if (!schedule.At(at).timed) continue;
        expected = at;
        break;
      }
      EXPECT_EQ(schedule.NextTimed(step), expected) << "step " << step;
    }
  }
}

TEST(StepScheduleTest, TheLargestNumbersDoNotOverflow) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  const StepSchedule schedule = ScheduleOf(
      "skip_first: 1099511627776 wait: 1099511627776 warmup: 100 active: 5 "
      "repeat: 20");
  EXPECT_EQ(schedule.NextTimed(1), 2 * kMost + 1);
  EXPECT_TRUE(schedule.At(2 * kMost + 101).kept);
  EXPECT_EQ(schedule.NextTimed(kMost * 30), StepSchedule::kNever);
}

}  // namespace
}  // namespace gpupool::server
