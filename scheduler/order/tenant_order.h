// The order of jobs of several tenants: fair_share.h applied to a queue.
#pragma once

#include "absl/container/btree_set.h"
#include "absl/types/span.h"
#include "scheduler/state/state.h"

namespace gpupool::scheduler {

// Takes jobs in the order of their keys. Those of tenants that have had least
// of their shares go first, level by level of the tenants' paths; where tenants
// have had the same, the one whose first job goes first.
void SortByShare(const State& state, absl::Span<const Job*> jobs);

// The live jobs that are within a guarantee of their tenant: as many as fit it,
// the ones that were submitted first.
absl::btree_set<JobId> GuaranteedJobs(const State& state);

}  // namespace gpupool::scheduler
