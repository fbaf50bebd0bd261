// Reads the files of openb, Alibaba's trace of GPU-sharing jobs (Weng et al.,
// USENIX ATC 2023; github.com/alibaba/clusterdata, cluster-trace-gpu-v2023).
// They are CSV with a header line. The columns may stand in any order; other
// columns are ignored.
//
//   nodes  cpu_milli, memory_mib, gpu (how many), model (their kind; optional)
//   pods   cpu_milli, memory_mib, num_gpu, gpu_milli (of each, up to 1000; of
//          several all), gpu_spec (the kind; optional, empty: any)
//
// A pod without a GPU needs only the host (kHostKind). The host need of a pod
// with several GPUs is divided by their number and rounded up.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/simulator/fill.h"

namespace gpupool::scheduler {

// Returns the rows of a file. InvalidArgument names the line, the value and
// what is allowed.
absl::StatusOr<std::vector<FillNode>> ParseNodes(absl::string_view csv);
absl::StatusOr<std::vector<JobNeed>> ParsePods(absl::string_view csv);

// Returns a part of a workload that resembles openb, for machines with 8
// devices, 96 cores and 768 GiB: a seventh of the jobs need no device, most
// others a part of one or one, few two to eight. The same seed gives the same
// jobs.
std::vector<FillNode> GenerateNodes(uint32_t nodes);
std::vector<JobNeed> GenerateNeeds(uint32_t jobs, uint64_t seed);

}  // namespace gpupool::scheduler
