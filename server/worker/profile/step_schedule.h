// The steps that training.profile selects, by their numbers from 1. Pure.
#pragma once

#include <cstdint>

#include "gpupool/v1/job.pb.h"

namespace gpupool::server {

// The use of one step.
struct ScheduledStep {
  bool timed = false;  // in the warm-up or active
  bool kept = false;   // active
  uint32_t cycle = 0;  // from 1; 0 unless it is timed
  // Number of active steps in the cycle from this one on; 0 unless it is kept.
  uint32_t left = 0;
};

class StepSchedule {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;

  // Takes a schedule of a checked spec.
  explicit StepSchedule(const v1::ProfileSchedule& schedule);

  ScheduledStep At(uint64_t step) const;
  // Returns the first timed step from `step` on, or kNever.
  uint64_t NextTimed(uint64_t step) const;

 private:
  // Returns the number of steps in a cycle, at least 1.
  uint64_t period() const { return wait_ + warmup_ + active_; }

  const uint64_t skip_first_;
  const uint64_t wait_;
  const uint32_t warmup_;
  const uint32_t active_;
  const uint64_t cycles_;
};

}  // namespace gpupool::server
