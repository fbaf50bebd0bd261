// Which devices the daemon owns: the words of --devices and the facts of the
// machine, as a list for the pool.
//
//   auto        the GPUs when a CUDA worker module is installed and there are
//               any, else cpu:2 (cpu:1 on one core)
//   cpu:N       N virtual devices cpu:0 .. cpu:N-1 that share the cores
//   cuda:I,J    these GPUs
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

struct MachineFacts {
  uint32_t cores = 1;         // that this process may use
  uint64_t memory_bytes = 0;  // of the machine, or of its container
  uint32_t gpus = 0;
  bool cuda_module = false;  // libgpupool_cuda.so lies in ../lib of the worker
};

struct DeviceChoice {
  std::string name;          // "cpu:0"
  uint64_t limit_bytes = 0;  // 0 for a GPU: what the GPU has
  uint32_t threads = 1;
};

MachineFacts ReadMachineFacts(const std::string& worker_binary);

// `memory_bytes` is the limit of each device; 0 means half of the machine's
// memory, divided. InvalidArgument for words that mean nothing;
// FailedPrecondition for a GPU that is not there.
absl::StatusOr<std::vector<DeviceChoice>> ChooseDevices(
    absl::string_view devices, uint64_t memory_bytes,
    const MachineFacts& machine);

}  // namespace gpupool::server
