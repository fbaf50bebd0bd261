// How much memory the host has for copies of checkpoints.
//
// Thread-safety: pure but for the files that are read.
#pragma once

#include <cstdint>
#include <string>

namespace gpupool::server {

struct HostMemoryFiles {
  std::string meminfo = "/proc/meminfo";
  std::string cgroup = "/sys/fs/cgroup";  // of version 2
};

// What could be taken without swapping: the kernel's estimate, or less where a
// container is allowed less. 0 when the kernel tells nothing.
uint64_t FreeHostBytes(const HostMemoryFiles& files = {});

// A copy of a checkpoint may take half of what is free: the rest is for what
// runs beside it, and for the file on its way to the disk.
inline uint64_t RoomForCopy(uint64_t free_bytes) { return free_bytes / 2; }

}  // namespace gpupool::server
