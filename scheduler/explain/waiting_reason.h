// One sentence for each waiting job that says why it waits, for everybody who
// looks at the queue (explain.h has the details about one job).
//
// Thread-safety: as State. Pure functions of it.
#pragma once

#include <cstddef>
#include <string>

#include "absl/container/btree_map.h"
#include "scheduler/state/state.h"

namespace gpupool::scheduler {

// Returns why each of the first `limit` queued jobs waits, for example
//   * "waits for 1.2 GiB on a device; the largest free is 300.0 MiB on cpu:0; 3
//     jobs are ahead"
//   * "waits for 2 cuda devices with 3.1 GiB each; 1 is free; it is next"
//
// If fewer jobs are queued, adds jobs that may not start yet, with the reason.
// Cost is linear in `limit`.
absl::btree_map<JobId, std::string> WaitingReasons(const State& state,
                                                   size_t limit);

// Returns the reason of one QUEUED job, wherever it stands in the queue. Cost
// is linear in the jobs ahead.
std::string WaitingReason(const State& state, const Job& job);

}  // namespace gpupool::scheduler
