#include "server/trace/sampler.h"

#include <algorithm>

namespace gpupool::server {
namespace {

// The number of values that a random number may have, as a power of two that a
// double holds exactly.
constexpr double kRandomValues = static_cast<double>(uint64_t{1} << 56);

uint64_t ThresholdOf(double share) {
  return static_cast<uint64_t>(std::clamp(share, 0.0, 1.0) * kRandomValues);
}

}  // namespace

Sampler::Sampler(double share, double client_rate)
    : threshold_(ThresholdOf(share)),
      client_rate_(client_rate),
      tokens_(client_rate) {}

double Sampler::share() const {
  return static_cast<double>(threshold_.load(std::memory_order_relaxed)) /
         kRandomValues;
}

void Sampler::SetShare(double share) {
  threshold_.store(ThresholdOf(share), std::memory_order_relaxed);
}

bool Sampler::AllowsClient(absl::Time now) {
  absl::MutexLock lock(&mutex_);
  // A clock that was set back refills nothing until it has caught up.
  if (now > refilled_) {
    const double seconds = refilled_ == absl::InfinitePast()
                               ? 0
                               : absl::ToDoubleSeconds(now - refilled_);
    tokens_ = std::min(client_rate_, tokens_ + seconds * client_rate_);
    refilled_ = now;
  }
  if (tokens_ < 1) return false;
  tokens_ -= 1;
  return true;
}

}  // namespace gpupool::server
