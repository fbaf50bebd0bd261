#include "client/retry.h"

#include <algorithm>

namespace gpupool::client {

Backoff::Backoff(Options options, uint32_t seed)
    : options_(options), wait_(options.initial), random_(seed) {}

absl::Duration Backoff::Next() {
  std::uniform_real_distribution<double> part(0.0, options_.jitter);
  const absl::Duration wait = wait_ * (1.0 - part(random_));
  wait_ = std::min(wait_ * 2, options_.maximum);
  return wait;
}

void Backoff::Reset() { wait_ = options_.initial; }

bool IsRetryable(const absl::Status& status) {
  return absl::IsUnavailable(status);
}

}  // namespace gpupool::client
