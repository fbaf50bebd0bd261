#include "client/retry.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

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

bool SleepUnlessStopped(absl::Duration duration, const std::stop_token& stop) {
  std::mutex mutex;
  std::condition_variable_any wakeup;
  std::unique_lock<std::mutex> lock(mutex);
  wakeup.wait_for(lock, stop, absl::ToChronoNanoseconds(duration),
                  [] { return false; });
  return !stop.stop_requested();
}

}  // namespace gpupool::client
