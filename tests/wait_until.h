// Waits of tests for what another thread or process brings about.
//
// A test that guesses a duration fails on a busy machine. So it waits for a
// state, drives a clock of its own, or ends what it started, and only these
// functions sleep (tests/tidy/wait_rules.py).
#pragma once

#include <functional>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace gpupool {

// The longest that a test waits for anything. Far more than a busy machine
// needs; only a failing test takes so long.
inline constexpr absl::Duration kPatience = absl::Seconds(60);

// Returns true as soon as `condition` holds, and false when it does not within
// kPatience. Calls it on this thread, again and again.
inline bool WaitUntil(const std::function<bool()>& condition) {
  const absl::Time end = absl::Now() + kPatience;
  while (!condition()) {
    if (absl::Now() > end) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

// Sleeps for at least `time`, so that a clock has something to show. The caller
// compares with what its own clock showed, never with what it hoped for.
inline void LetTimePass(absl::Duration time) { absl::SleepFor(time); }

// Sleeps, so that other threads may do what they must not do, or may get to a
// different point in each round. A test that passes when they do nothing
// meanwhile stays right on any machine; no other may call this.
inline void LetOthersRun(absl::Duration time = absl::Milliseconds(20)) {
  absl::SleepFor(time);
}

}  // namespace gpupool
