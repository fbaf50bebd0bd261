// Decides whether a failed call may be retried, how long to wait before, and
// waits.
//
// Thread-safety: a Backoff belongs to one thread. It owns nothing else.
#pragma once

#include <cstdint>
#include <random>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace gpupool::client {

// Waits that double from `initial` up to `maximum`. Each is shortened by a
// random part of at most `jitter` of it, so that many clients do not call at
// the same moment when a server comes back.
class Backoff {
 public:
  struct Options {
    absl::Duration initial = absl::Milliseconds(100);
    absl::Duration maximum = absl::Seconds(2);
    double jitter = 0.25;  // [0, 1)
  };

  Backoff(Options options, uint32_t seed);

  // Returns the next wait.
  absl::Duration Next();
  // Starts again with `initial`, after a success.
  void Reset();

 private:
  const Options options_;
  absl::Duration wait_;
  std::minstd_rand random_;
};

// Returns whether the status is Unavailable. It is the only code after which a
// retry may help and does no harm to an idempotent call.
bool IsRetryable(const absl::Status& status);

// Sleeps. Returns false if `stop` was requested before the time was over.
bool SleepUnlessStopped(absl::Duration duration, const std::stop_token& stop);

}  // namespace gpupool::client
