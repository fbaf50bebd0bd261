// The files of Alibaba's trace of GPU-sharing jobs, openb (Weng et al., USENIX
// ATC 2023; github.com/alibaba/clusterdata, cluster-trace-gpu-v2023): CSV with
// a header line; the columns may stand in any order and others may be among
// them.
//
//   nodes  cpu_milli, memory_mib, gpu (how many), model (their kind; optional)
//   pods   cpu_milli, memory_mib, num_gpu, gpu_milli (of each, up to 1000; of
//          several all), gpu_spec (the kind; optional, empty: any)
//
// Pods without a GPU need the host alone (kHostKind). What a pod with several
// GPUs needs of the host is divided by them and rounded up.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/simulator/fill.h"

namespace gpupool::scheduler {

// InvalidArgument with the number of the line, the value and what is allowed.
absl::StatusOr<std::vector<FillNode>> ParseNodes(absl::string_view csv);
absl::StatusOr<std::vector<JobNeed>> ParsePods(absl::string_view csv);

// A workload that resembles that one, for machines with 8 devices, 96 cores and
// 768 GiB: a seventh of the jobs need no device, most of the others a part of
// one or one, few two to eight. The same seed gives the same jobs.
std::vector<FillNode> GenerateNodes(uint32_t nodes);
std::vector<JobNeed> GenerateNeeds(uint32_t jobs, uint64_t seed);

}  // namespace gpupool::scheduler
