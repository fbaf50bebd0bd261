// Host needs: the cores and the host memory that jobs need besides devices.
// Both are counted when jobs are placed; nothing enforces them on a process. A
// stray, which is still being stopped on a device, counts for its device bytes
// only.
//
// Thread-safety: values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace gpupool::scheduler {

// Need for each device of a job. Zero: unspecified and not counted.
struct HostNeed {
  uint64_t milli_cores = 0;  // thousandths of a core
  uint64_t bytes = 0;

  bool none() const { return milli_cores == 0 && bytes == 0; }
  friend constexpr auto operator<=>(const HostNeed&, const HostNeed&) = default;
};

// A machine without its devices.
struct Machine {
  uint32_t node = 0;  // number of the machine
  HostNeed limit;     // capacity; zero: unknown and unlimited
  HostNeed used;      // taken by live ranks

  // Returns the unused rest.
  HostNeed free() const {
    return {Left(limit.milli_cores, used.milli_cores),
            Left(limit.bytes, used.bytes)};
  }
  // Returns the number of devices whose need fits: now (Holds), or on an empty
  // machine (EverHolds).
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
