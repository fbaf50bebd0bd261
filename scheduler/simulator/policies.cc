#include "scheduler/simulator/policies.h"

#include <algorithm>

namespace gpupool::scheduler {
namespace {

constexpr NamedPolicy kPolicies[] = {
    {"fifo", Order::kFirstCome, false,
     "first come, first served; nobody gives way"},
    {"las", Order::kLeastAttained, false,
     "least attained service: what has run for long gives way to what is young "
     "and likely to end soon"},
    {"srs", Order::kShortestRemaining, true,
     "shortest remaining service: needs run times"},
};

}  // namespace

absl::Span<const NamedPolicy> NamedPolicies() { return kPolicies; }

const NamedPolicy* FindPolicy(absl::string_view word) {
  const auto* found = std::find_if(
      std::begin(kPolicies), std::end(kPolicies),
      [&](const NamedPolicy& policy) { return policy.word == word; });
  return found == std::end(kPolicies) ? nullptr : found;
}

}  // namespace gpupool::scheduler
