// Orders jobs of several tenants: fair_share.h applied to a queue.
#pragma once

#include "absl/container/btree_set.h"
#include "absl/types/span.h"
#include "scheduler/state/state.h"

namespace gpupool::scheduler {

// Sorts jobs by tenant, then by key. Tenants that have had the least of their
// shares go first, level by level of their paths. Between equal tenants the one
// whose first job has the smaller key goes first. `jobs` must be in the order
// of their keys.
void SortByShare(const State& state, absl::Span<const Job*> jobs);

// Returns the live jobs that run within a guarantee of their tenant: the ones
// that were submitted first, as many as fit the guarantee.
absl::btree_set<JobId> GuaranteedJobs(const State& state);

}  // namespace gpupool::scheduler
