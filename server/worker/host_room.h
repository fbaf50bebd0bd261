// Host memory that is free for copies of checkpoints.
//
// Thread-safety: pure functions, apart from the files that they read.
#pragma once

#include <cstdint>
#include <string>

namespace gpupool::server {

struct HostMemoryFiles {
  std::string meminfo = "/proc/meminfo";
  std::string cgroup = "/sys/fs/cgroup";  // version 2
};

// Returns the bytes that can be taken without swapping: the kernel's estimate,
// or less when a container has less. 0 when the kernel does not tell.
uint64_t FreeHostBytes(const HostMemoryFiles& files = {});

// Returns the room for a copy of a checkpoint: half of the free bytes. The rest
// is for other programs, and for the file on its way to the disk.
inline uint64_t RoomForCopy(uint64_t free_bytes) { return free_bytes / 2; }

}  // namespace gpupool::server
