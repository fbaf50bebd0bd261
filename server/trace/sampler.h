// Decides which requests are traced. If a request comes with its caller's span,
// the caller has decided, up to a rate. Among the others, a share is chosen at
// random.
//
// Thread-safety: any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace gpupool::server {

class Sampler {
 public:
  // `share` is 0 .. 1. At most `client_rate` requests a second, and as many at
  // once, are traced because their caller traces.
  Sampler(double share, double client_rate);

  // Returns whether a request without a caller's span is traced. All 64 bits of
  // `random` must be random. Its upper 8 bits have no influence.
  bool Chooses(uint64_t random) const {
    return (random & kRandomMask) < threshold_.load(std::memory_order_relaxed);
  }

  // Returns whether one more request is traced because its caller traces.
  bool AllowsClient(absl::Time now);

  double share() const;
  void SetShare(double share);

 private:
  static constexpr uint64_t kRandomMask = (uint64_t{1} << 56) - 1;

  std::atomic<uint64_t> threshold_;  // 0 .. 2^56
  const double client_rate_;
  absl::Mutex mutex_;
  double tokens_ ABSL_GUARDED_BY(mutex_);  // requests that are allowed now
  absl::Time refilled_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace gpupool::server
