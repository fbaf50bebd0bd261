// Which devices the daemon owns: the words of --devices and the facts of the
// machine, as a list for the pool.
//
//   auto        the GPUs when workers can open any, else cpu:2 (cpu:1 on one
//               core)
//   cpu:N       N virtual devices cpu:0 .. cpu:N-1 that share the cores
//   cuda:I,J    these GPUs
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/topology.h"

namespace gpupool::server {

struct UsableGpu {
  uint64_t bytes = 0;  // that can be used
  // To each GPU, by index; empty where nobody tells.
  std::vector<scheduler::Link> links = {};
  // What the worker told of it, a line of JSON; may be empty.
  std::string facts = {};
};

struct MachineFacts {
  uint32_t cores = 1;         // that this process may use
  uint64_t memory_bytes = 0;  // of the machine, or of its container
  std::vector<UsableGpu> gpus;
  std::string no_gpus;  // why there are none
};

struct DeviceChoice {
  std::string name;  // "cpu:0"
  uint64_t limit_bytes = 0;
  uint32_t threads = 1;
  // To each device of the list; empty where nobody tells.
  std::vector<scheduler::Link> links = {};
  std::string facts = {};  // of a GPU, as UsableGpu's
};

// But for the GPUs: see gpu_query.h.
MachineFacts ReadMachineFacts();
// Whether the words may mean a GPU.
bool MayMeanGpus(absl::string_view devices);

// `memory_bytes` is the limit of each device; 0 means what the GPU has, or half
// of the machine's memory, divided. InvalidArgument for words that mean
// nothing, and for more memory than a GPU has; FailedPrecondition for a GPU
// that is not there.
absl::StatusOr<std::vector<DeviceChoice>> ChooseDevices(
    absl::string_view devices, uint64_t memory_bytes,
    const MachineFacts& machine);

}  // namespace gpupool::server
