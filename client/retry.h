// When a failed call is worth repeating and how long to wait before it.
//
// Thread-safety: a Backoff belongs to one thread. Owns nothing else.
#pragma once

#include <cstdint>
#include <random>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace gpupool::client {

// Waits that double from `initial` up to `maximum`, each shortened by a random
// part of up to `jitter` of it, so that many clients of a server that comes
// back do not all call in the same instant.
class Backoff {
 public:
  struct Options {
    absl::Duration initial = absl::Milliseconds(100);
    absl::Duration maximum = absl::Seconds(2);
    double jitter = 0.25;  // [0, 1)
  };

  Backoff(Options options, uint32_t seed);

  // The next wait.
  absl::Duration Next();
  // Back to `initial`, after a success.
  void Reset();

 private:
  const Options options_;
  absl::Duration wait_;
  std::minstd_rand random_;
};

// True for the one code that promises that a repeat may help and does no harm
// to an idempotent call: Unavailable.
bool IsRetryable(const absl::Status& status);

}  // namespace gpupool::client
