#include "scheduler/serve/load_policy.h"

#include <algorithm>

namespace gpupool::scheduler {

bool LoadGauge::Update(const LoadSample& sample, absl::Time now) {
  const bool too_long = sample.wait > options_.target;
  const bool calm = sample.wait <= options_.target / 2 &&
                    sample.requests_per_second <= busiest_ / 2;
  if (under_load_ ? !calm : !too_long) {
    since_ = absl::InfiniteFuture();
    return under_load_;
  }
  // The first measurement of a new period, or the clock was set back.
  if (since_ > now) {
    since_ = now;
    if (!under_load_) busiest_ = 0;
  }
  if (!under_load_) {
    busiest_ = std::max(busiest_, sample.requests_per_second);
    if (now - since_ >= options_.begin_after) Begin(now);
  } else if (now - since_ >= options_.end_after * patience_) {
    End(now);
  }
  return under_load_;
}

void LoadGauge::Begin(absl::Time now) {
  // Bursts in quick succession: take longer to call the next one over.
  const bool soon = now - last_end_ < options_.end_after * kSoon;
  patience_ = soon ? std::min(2 * patience_, kMostPatience) : 1;
  under_load_ = true;
  since_ = absl::InfiniteFuture();
}

void LoadGauge::End(absl::Time now) {
  under_load_ = false;
  last_end_ = now;
  since_ = absl::InfiniteFuture();
}

}  // namespace gpupool::scheduler
