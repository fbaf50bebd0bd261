#include "scheduler/simulator/policies.h"

#include <algorithm>
#include <iterator>

namespace gpupool::scheduler {
namespace {

constexpr SimulatedPolicy kPolicies[] = {
    {Order::kFirstCome, false, "first come, first served; nobody gives way"},
    {Order::kBackfill, true,
     "first come, and what ends before the first one's reservation may pass "
     "it"},
    {Order::kFairShare, false,
     "fair share: the tenant that has had least goes first; nobody gives way"},
    {Order::kLeastAttained, false,
     "least attained service: what has run for long gives way to what will "
     "probably end sooner"},
    {Order::kShortestRemaining, true,
     "shortest remaining service: what has much left gives way"},
};

}  // namespace

absl::Span<const SimulatedPolicy> SimulatedPolicies() { return kPolicies; }

const SimulatedPolicy* FindPolicy(absl::string_view word) {
  const auto* found = std::find_if(
      std::begin(kPolicies), std::end(kPolicies),
      [&](const SimulatedPolicy& policy) { return policy.word() == word; });
  return found == std::end(kPolicies) ? nullptr : found;
}

}  // namespace gpupool::scheduler
