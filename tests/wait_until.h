// Functions with which tests wait for another thread or process.
//
// A test that guesses a duration fails on a busy machine. So a test waits for a
// state, drives its own clock, or ends what it started. Only these functions
// sleep (tests/tidy/wait_rules.py).
#pragma once

#include <functional>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gpupool {

// The longest wait of a test. It is far more than a busy machine needs. Only a
// failing test takes so long.
inline constexpr absl::Duration kPatience = absl::Seconds(60);

// Returns true as soon as `condition` holds, and false if it does not hold
// within kPatience. Calls it repeatedly on this thread.
inline bool WaitUntil(const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + kPatience;
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// Sleeps for at least `time`, so that a clock advances. The caller must compare
// with its own clock's readings, and never with an expected duration.
inline void LetTimePass(absl::Duration time) { absl::SleepFor(time); }

// Sleeps, so that other threads can do what they must not do, or reach a
// different point in each round. A test that passes when they do nothing
// meanwhile is right on any machine. No other test may call this.
inline void LetOthersRun(absl::Duration time = absl::Milliseconds(20)) {
  absl::SleepFor(time);
}

}  // namespace gpupool
