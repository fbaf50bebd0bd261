// Devices that are kept free for jobs that were passed too often
// (queue_policy.h): which job keeps which device, and the texts for jobs that
// may not start there.
//
// Thread-safety: as State. Pure functions of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_map.h"
#include "scheduler/state/state.h"

namespace gpupool::scheduler {

using KeptDevices = absl::btree_map<DeviceId, JobId>;
// Waiting jobs that hold devices, in the order of the queue.
using Keepers = std::vector<const Job*>;

// Returns the keepers that are ahead of the job. Cost is linear in the jobs
// ahead.
Keepers KeepersBefore(const State& state, const Job& job);

// Returns the devices that `ahead` keep free and where the job may therefore
// not start, each with the first that keeps it.
KeptDevices KeptFrom(const State& state, const Job& job, const Keepers& ahead);

// Returns "job 37, which wants it to itself" or "job 37, which is ahead".
std::string KeeperText(const State& state, JobId keeper);

// Returns "cuda:0 is kept free for job 37, which is ahead" for a job that could
// start now on nothing but what `ahead` keep free; else nothing.
std::optional<std::string> KeptText(const State& state, const Job& job,
                                    const Keepers& ahead);

}  // namespace gpupool::scheduler
