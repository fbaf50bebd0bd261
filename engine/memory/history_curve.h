// The bytes of a device over the events of its history. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/memory/statistics.h"

namespace gpupool::engine {

// The most bytes in an interval of the history.
struct CurvePoint {
  int64_t end_time_us = 0;  // since 1970
  uint64_t allocated_bytes = 0;
  uint64_t reserved_bytes = 0;
};

// Returns the bytes by interval, oldest first, at most `most_points`, which is
// at least 2. The first point has the bytes before the first event; the
// intervals of the others have about equally many events. Empty without events.
// The snapshot must have all events since the first one.
std::vector<CurvePoint> HistoryCurve(const MemorySnapshot& snapshot,
                                     size_t most_points);

}  // namespace gpupool::engine
