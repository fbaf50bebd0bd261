// Facts of the kernel, the container and the process's limits, read from files
// and the process itself without touching a driver.
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
  // "docker", "podman", "kubernetes", or "container" for another kind; empty
  // outside of containers.
  std::string container;
  bool wsl = false;

  // Kernel module of the driver.
  bool kernel_module = false;
  std::string kernel_module_version;   // "580.65.06"; empty: unknown
  uint32_t pci_gpus = 0;               // on the bus, in a container the host's
  std::vector<std::string> gpu_files;  // "/dev/nvidia0"
  std::vector<std::string> locked_files;  // NVIDIA's files that we may not read
  bool control_file = false;              // /dev/nvidiactl
  bool memory_file = false;               // /dev/nvidia-uvm
  bool wsl_file = false;                  // /dev/dxg

  // Limits; kNoLimit: none.
  uint64_t memory_bytes = 0;  // machine's memory; 0: unknown
  uint64_t cgroup_memory_bytes = kNoLimit;
  double cgroup_cores = 0;  // quota; 0: none
  uint64_t cgroup_processes = kNoLimit;
  uint64_t locked_bytes = kNoLimit;   // ulimit -l
  uint64_t open_files = kNoLimit;     // ulimit -n
  uint64_t address_bytes = kNoLimit;  // ulimit -v
  uint32_t cores = 1;                 // usable by this process
  uint64_t shm_bytes = 0;             // size of /dev/shm; 0: none
  bool strict_overcommit = false;     // vm.overcommit_memory is 2
  // Blocked system calls that gpupool needs: "pidfd_open".
  std::vector<std::string> blocked_calls;
  // Parts of the sandbox of workers that the system lacks: "Landlock".
  std::vector<std::string> missing_layers;

  // Environment variables that are set and that NVIDIA's software reads.
  std::map<std::string, std::string> environment;
};

// Reads /proc, /sys and /dev below `root`, which is "/" except in tests.
// Missing facts keep their defaults.
HostFacts ReadHostFacts(const std::string& root);

}  // namespace gpupool::server
