// The order of jobs of several tenants: fair_share.h applied to a queue.
#pragma once

#include "absl/types/span.h"
#include "scheduler/state.h"

namespace gpupool::scheduler {

// Takes jobs in the order of their keys. Those of tenants that have had least
// of their shares go first, level by level of the tenants' paths; where tenants
// have had the same, the one whose first job goes first.
void SortByShare(const State& state, absl::Span<const Job*> jobs);

}  // namespace gpupool::scheduler
