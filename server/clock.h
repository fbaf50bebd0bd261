// The daemon's clocks.
//
//   * SteadyClock measures what jobs are charged for and limited by: usage,
//     runs, timeouts, back-offs. Within a process it never jumps.
//   * WallTime is for times that others set: certificates, tokens, ages of
//     files.
//
// Thread-safety: any thread.
#pragma once

#include <time.h>

#include <functional>
#include <utility>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gpupool::server {

// Returns the wall clock, which an administrator or NTP may set at any time.
inline absl::Time WallTime() { return absl::Now(); }

// Returns the time since the machine's start, with the time that it slept. No
// setting of the clock changes it.
inline absl::Duration TimeSinceBoot() {
  timespec time = {};
  clock_gettime(CLOCK_BOOTTIME, &time);
  return absl::DurationFromTimespec(time);
}

// The wall clock as it was when this object was made, plus the time that has
// passed since. When the wall clock is set meanwhile, this clock does not
// follow:
//   * Nothing is charged or ended early by the step.
//   * Times of jobs and reservations are off by the step until the daemon is
//     restarted. The log says by how much.
class SteadyClock {
 public:
  using Wall = std::function<absl::Time()>;
  using Steady = std::function<absl::Duration()>;

  // Tests give clocks of their own.
  explicit SteadyClock(const Wall& wall = WallTime,
                       Steady steady = TimeSinceBoot)
      : steady_(std::move(steady)), start_(wall() - steady_()) {}

  absl::Time Now() const { return start_ + steady_(); }

 private:
  const Steady steady_;
  const absl::Time start_;  // the machine's start by the wall clock
};

}  // namespace gpupool::server
