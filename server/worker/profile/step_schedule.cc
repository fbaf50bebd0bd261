#include "server/worker/profile/step_schedule.h"

#include <algorithm>

#include "gpupool/v1/limits.pb.h"

namespace gpupool::server {
namespace {

uint32_t ActiveSteps(const v1::ProfileSchedule& schedule) {
  return schedule.active() == 0 ? uint32_t{v1::DEFAULT_PROFILED_STEPS}
                                : schedule.active();
}

uint64_t CyclesOf(const v1::ProfileSchedule& schedule) {
  if (schedule.repeat() > 0) return schedule.repeat();
  return std::min<uint64_t>(
      v1::MAX_RECORDED_PROFILES,
      uint64_t{v1::MAX_PROFILED_STEPS} / ActiveSteps(schedule));
}

}  // namespace

StepSchedule::StepSchedule(const v1::ProfileSchedule& schedule)
    : skip_first_(schedule.skip_first()),
      wait_(schedule.wait()),
      warmup_(schedule.warmup()),
      active_(ActiveSteps(schedule)),
      cycles_(CyclesOf(schedule)) {}

ScheduledStep StepSchedule::At(uint64_t step) const {
  if (step <= skip_first_) return {};
  const uint64_t cycle = (step - 1 - skip_first_) / period();
  const uint64_t place = (step - 1 - skip_first_) % period();
  if (cycle >= cycles_ || place < wait_) return {};
  ScheduledStep at{.timed = true, .cycle = static_cast<uint32_t>(cycle + 1)};
  if (place < wait_ + warmup_) return at;
  at.kept = true;
  at.left = static_cast<uint32_t>(period() - place);
  return at;
}

uint64_t StepSchedule::NextTimed(uint64_t step) const {
  if (step <= skip_first_) return skip_first_ + wait_ + 1;
  const uint64_t cycle = (step - 1 - skip_first_) / period();
  if (cycle >= cycles_) return kNever;
  return std::max(step, skip_first_ + cycle * period() + wait_ + 1);
}

}  // namespace gpupool::server
