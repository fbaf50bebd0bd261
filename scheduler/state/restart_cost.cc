#include "scheduler/state/restart_cost.h"

#include <algorithm>

namespace gpupool::scheduler {

void RestartCost::Add(absl::Duration cost) {
  last_[added_ % kKept] = std::max(cost, absl::ZeroDuration());
  ++added_;
}

absl::Duration RestartCost::OrElse(absl::Duration configured) const {
  if (added_ < kFew) return configured;
  // A copy: nth_element reorders, and last_ is a ring in order of time.
  auto sorted = last_;
  const auto end = sorted.begin() + std::min(added_, kKept);
  const auto middle = sorted.begin() + (end - sorted.begin()) / 2;
  std::nth_element(sorted.begin(), middle, end);
  return *middle;
}

}  // namespace gpupool::scheduler
