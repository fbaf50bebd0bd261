// Decides when a served version is under load, so that training gives way to it
// (serving_policy.h): a small state machine over measurements that come about
// once a second.
//
// The load begins when requests have waited for longer than the target in every
// measurement of `begin_after`.
//
// It ends when for `end_after` both hold. A short wait alone is not enough:
// once training has left, requests wait less although as many come.
//   * Requests waited for less than half the target.
//   * They came less than half as often as when the load began.
//
// A load that begins again soon after its end doubles the time that its next
// end takes, at most kMostPatience-fold, so that training does not come and go
// with every burst.
//
// Thread-safety: none; a value.
#pragma once

#include "absl/time/time.h"

namespace gpupool::scheduler {

struct LoadOptions {
  absl::Duration target;  // > 0: a longer wait is too long
  absl::Duration begin_after = absl::Seconds(5);
  absl::Duration end_after = absl::Seconds(30);
};

// Measurement since the previous sample.
struct LoadSample {
  // Mean wait of requests before they were computed, or the wait of the oldest
  // request that still waits, if that is longer.
  absl::Duration wait;
  double requests_per_second = 0;
};

class LoadGauge {
 public:
  static constexpr int kMostPatience = 8;
  // A load begins again soon when it does so within this many times end_after.
  static constexpr int kSoon = 10;

  explicit LoadGauge(const LoadOptions& options) : options_(options) {}

  // Adds a measurement and returns whether the version is under load. If the
  // clock was set back, the periods start anew.
  bool Update(const LoadSample& sample, absl::Time now);
  // Begins the periods anew, because nothing could be measured for a while.
  void Interrupt() { since_ = absl::InfiniteFuture(); }
  bool under_load() const { return under_load_; }

 private:
  void Begin(absl::Time now);
  void End(absl::Time now);

  LoadOptions options_;
  bool under_load_ = false;
  int patience_ = 1;  // current multiple of end_after
  // Time since which measurements contradict under_load_.
  absl::Time since_ = absl::InfiniteFuture();
  absl::Time last_end_ = absl::InfinitePast();
  double busiest_ = 0;  // most requests per second while the load began
};

}  // namespace gpupool::scheduler
