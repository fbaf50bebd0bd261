#include "server/worker/host_room.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <limits>

namespace gpupool::server {
namespace {

// Returns 0 when there is no such line.
uint64_t MemAvailable(const std::string& path) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    unsigned long long kib = 0;
    if (std::sscanf(line.c_str(), "MemAvailable: %llu kB", &kib) == 1) {
      return uint64_t{kib} << 10;
    }
  }
  return 0;
}

// Returns the room in a cgroup. Pages of files count as used, although the
// kernel would give them up.
uint64_t CgroupRoom(const std::string& folder) {
  uint64_t limit = 0, used = 0;
  std::ifstream limit_file(folder + "/memory.max");
  std::ifstream used_file(folder + "/memory.current");
  if (!(limit_file >> limit) || !(used_file >> used)) {
    return std::numeric_limits<uint64_t>::max();
  }
  std::ifstream stat(folder + "/memory.stat");
  std::string name;
  for (uint64_t bytes = 0; stat >> name >> bytes;) {
    if (name == "inactive_file") used -= std::min(used, bytes);
  }
  return limit - std::min(limit, used);
}

}  // namespace

uint64_t FreeHostBytes(const HostMemoryFiles& files) {
  return std::min(MemAvailable(files.meminfo), CgroupRoom(files.cgroup));
}

}  // namespace gpupool::server
