// Which devices the daemon owns: the words of --devices (device_list.h) and the
// facts of the machine, as a list for the pool. GPUs come first, in the order
// of the words.
//
//   auto    all GPUs that workers can use and cpu:0, or cpu:2 where there is no
//           such GPU (cpu:1 on one core)
//   cpu:N   N virtual devices that share the cores and half of the memory;
//           beside G GPUs they share half of the cores but G, and a quarter of
//           the memory: the GPUs' workers need threads and copies on the host
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "scheduler/state/topology.h"

namespace gpupool::server {

struct UsableGpu {
  uint64_t bytes = 0;  // that can be used
  // To each GPU, by index; empty where nobody tells.
  std::vector<scheduler::Link> links = {};
  std::string refusal = {};  // why workers cannot use it; empty: they can
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

// `memory_bytes` is the limit of each device; 0 means what the GPU has, or the
// CPU device's share. A CPU device beside GPUs never gets more than its share.
// InvalidArgument for words that mean nothing, and for more memory than a GPU
// has; FailedPrecondition for a GPU that is not there or that workers cannot
// use.
absl::StatusOr<std::vector<DeviceChoice>> ChooseDevices(
    absl::string_view devices, uint64_t memory_bytes,
    const MachineFacts& machine);

}  // namespace gpupool::server
