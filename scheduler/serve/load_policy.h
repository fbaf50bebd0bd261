// When a served version is under load, so that training gives way to it
// (serving_policy.h): a small state machine over what is measured about once a
// second.
//
// The load begins when requests have waited for longer than the target in every
// measurement of `begin_after`. With training gone requests wait less although
// as many come, so a short wait alone does not end it: it ends when for
// `end_after` requests have waited for less than half the target and come less
// than half as often as when it began. A load that begins again soon after its
// end doubles the time that its next end takes, at most kMostPatience-fold, so
// that training does not come and go with every burst.
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

// Since the last one.
struct LoadSample {
  // That requests waited before they were computed, in the mean, or the one
  // that still waits and came first, if that is longer.
  absl::Duration wait;
  double requests_per_second = 0;
};

class LoadGauge {
 public:
  static constexpr int kMostPatience = 8;
  // A load that begins again within so many times end_after of its end.
  static constexpr int kSoon = 10;

  explicit LoadGauge(const LoadOptions& options) : options_(options) {}

  // Whether the version is under load. A clock that was set back starts the
  // times anew.
  bool Update(const LoadSample& sample, absl::Time now);
  bool under_load() const { return under_load_; }

 private:
  void Begin(absl::Time now);
  void End(absl::Time now);

  LoadOptions options_;
  bool under_load_ = false;
  int patience_ = 1;  // end_after counts so many times
  // Since when measurements say the opposite of under_load_.
  absl::Time since_ = absl::InfiniteFuture();
  absl::Time last_end_ = absl::InfinitePast();
  double busiest_ = 0;  // requests per second, while the load began
};

}  // namespace gpupool::scheduler
