// What jobs need of a machine beside its devices: cores and memory of the host.
// Both are counted where jobs are placed; nothing holds a process to them. What
// is still being stopped on a device (a stray) counts for its bytes there only.
//
// Thread-safety: values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace gpupool::scheduler {

// For each device of a job. Zero: nobody has said, so that nothing is counted.
struct HostNeed {
  uint64_t milli_cores = 0;  // thousandths of a core
  uint64_t bytes = 0;

  bool none() const { return milli_cores == 0 && bytes == 0; }
  friend constexpr auto operator<=>(const HostNeed&, const HostNeed&) = default;
};

// A machine's part that is not on its devices.
struct Machine {
  uint32_t node = 0;  // its number
  HostNeed limit;     // what there is; zero: not known, so not limited
  HostNeed used;      // by live ranks

  // What is left.
  HostNeed free() const {
    return {Left(limit.milli_cores, used.milli_cores),
            Left(limit.bytes, used.bytes)};
  }
  // For how many devices there is as much: now, and if nothing ran.
  uint32_t Holds(const HostNeed& need) const { return Times(free(), need); }
  uint32_t EverHolds(const HostNeed& need) const { return Times(limit, need); }

 private:
  static uint64_t Left(uint64_t all, uint64_t used) {
    return all > used ? all - used : 0;
  }
  static uint32_t Times(uint64_t limit, uint64_t there, uint64_t need) {
    constexpr uint64_t kMost = std::numeric_limits<uint32_t>::max();
    if (limit == 0 || need == 0) return kMost;
    return static_cast<uint32_t>(std::min(there / need, kMost));
  }
  uint32_t Times(const HostNeed& there, const HostNeed& need) const {
    return std::min(
        Times(limit.milli_cores, there.milli_cores, need.milli_cores),
        Times(limit.bytes, there.bytes, need.bytes));
  }
};

}  // namespace gpupool::scheduler
