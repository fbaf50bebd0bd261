// The device counts that an elastic job can run with.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

namespace gpupool::engine {

// Returns the counts from `least` (0 means 1) to `most` that divide the batch
// evenly, in rising order. Returns none when `most` is 0.
inline std::vector<uint32_t> ElasticDevices(uint32_t least, uint32_t most,
                                            uint32_t batch_size) {
  std::vector<uint32_t> counts;
  const uint32_t last = std::min(most, batch_size);
  for (uint32_t count = std::max(least, uint32_t{1}); count <= last; ++count) {
    if (batch_size % count == 0) counts.push_back(count);
  }
  return counts;
}

}  // namespace gpupool::engine
