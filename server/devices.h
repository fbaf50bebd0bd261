// Chooses the daemon's devices from --devices (device_list.h) and the facts of
// the machine, as a list for the pool. GPUs come first, in the given order.
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
  uint64_t bytes = 0;  // usable bytes
  // Links to each GPU by index; empty when unknown.
  std::vector<scheduler::Link> links = {};
  std::string refusal = {};  // why workers cannot use it; empty: they can
  // The worker's facts about it, a line of JSON; may be empty.
  std::string facts = {};
};

struct MachineFacts {
  uint32_t cores = 1;         // usable by this process
  uint64_t memory_bytes = 0;  // memory of the machine or its container
  std::vector<UsableGpu> gpus;
  std::string no_gpus;  // why there are none
};

struct DeviceChoice {
  std::string name;  // "cpu:0"
  uint64_t limit_bytes = 0;
  uint32_t threads = 1;
  // Links to each device of the list; empty when unknown.
  std::vector<scheduler::Link> links = {};
  std::string facts = {};  // same as UsableGpu's
};

// Reads all facts except those of GPUs: see gpu_query.h.
MachineFacts ReadMachineFacts();

// Returns the devices. `memory_bytes` is the limit of each one; 0 means all of
// a GPU, or a CPU device's share. A CPU device beside GPUs never gets more than
// its share. Errors:
//   * InvalidArgument: the list does not parse, or asks for more memory than a
//     GPU has
//   * FailedPrecondition: a GPU does not exist or workers cannot use it
absl::StatusOr<std::vector<DeviceChoice>> ChooseDevices(
    absl::string_view devices, uint64_t memory_bytes,
    const MachineFacts& machine);

}  // namespace gpupool::server
