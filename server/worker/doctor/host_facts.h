// What the kernel, the container and the process's limits say: read from files
// and the process itself, without touching a driver.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

namespace gpupool::server {

inline constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

struct HostFacts {
  // "docker", "podman", "kubernetes", or "container" of another kind; empty
  // outside.
  std::string container;
  bool wsl = false;

  // The kernel's side of the driver.
  bool kernel_module = false;
  std::string kernel_module_version;  // "580.65.06"; empty where it is not told
  uint32_t pci_gpus = 0;              // on the bus, also a container's host's
  std::vector<std::string> gpu_files;     // "/dev/nvidia0"
  std::vector<std::string> locked_files;  // of NVIDIA's; not readable by us
  bool control_file = false;              // /dev/nvidiactl
  bool memory_file = false;               // /dev/nvidia-uvm
  bool wsl_file = false;                  // /dev/dxg

  // Limits; kNoLimit where there is none.
  uint64_t memory_bytes = 0;  // of the machine; 0: not told
  uint64_t cgroup_memory_bytes = kNoLimit;
  double cgroup_cores = 0;  // of the quota; 0: none
  uint64_t cgroup_processes = kNoLimit;
  uint64_t locked_bytes = kNoLimit;   // ulimit -l
  uint64_t open_files = kNoLimit;     // ulimit -n
  uint64_t address_bytes = kNoLimit;  // ulimit -v
  uint32_t cores = 1;                 // that this process may use
  uint64_t shm_bytes = 0;             // of /dev/shm; 0: there is none
  bool strict_overcommit = false;     // vm.overcommit_memory is 2
  // Calls of the system that gpupool needs and does not get: "pidfd_open".
  std::vector<std::string> blocked_calls;

  // Of the variables that NVIDIA's software reads those that are set.
  std::map<std::string, std::string> environment;
};

// Reads /proc, /sys and /dev beneath `root`, which is "/" but in tests. What a
// file does not tell keeps its default.
HostFacts ReadHostFacts(const std::string& root);

}  // namespace gpupool::server
