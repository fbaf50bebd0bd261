// Shares long sums among threads. (Host and device; plain C++.)
//
// - If the numbers of a sum are neighbours, a group makes each sum.
// - If the numbers of neighbouring sums are neighbours, a group makes a tile of
//   sums, so that neighbouring lanes read neighbouring numbers.
//
// If that gives fewer groups than the device runs at once, each sum is cut into
// parts, and a second launch joins them.
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"

namespace gpupool::engine::portable {

// Item `part * tiles + t` is part `part` of the sums [t * tile, (t + 1) *
// tile).
struct Parts {
  int64_t count = 1;  // numbers of each sum
  int64_t tile = 1;   // a power of two
  int64_t tiles = 1;
  int64_t per_part = 1;
  int64_t parts = 1;

  GPUPOOL_HOST_DEVICE int64_t items() const { return tiles * parts; }
  GPUPOOL_HOST_DEVICE int64_t Begin(int64_t part) const {
    return part * per_part;
  }
  GPUPOOL_HOST_DEVICE int64_t End(int64_t part) const {
    const int64_t end = (part + 1) * per_part;
    return end < count ? end : count;
  }

  // Calls visit(part, sum, columns) for the sums of an item's tile. Each lane
  // takes the sums of its column, which is lane() % `columns`. All lanes make
  // the same number of calls. So `sum` may lie behind the last one.
  template <typename Group, typename Visitor>
  GPUPOOL_HOST_DEVICE void ForEachSum(const Group& group, int64_t item,
                                      const Visitor& visit) const {
    const int64_t part = parts == 1 ? 0 : item / tiles;
    const int64_t first = (item - part * tiles) * tile;
    const int columns =
        group.lanes() < tile ? group.lanes() : static_cast<int>(tile);
    for (int64_t turn = 0; turn < tile; turn += columns) {
      visit(part, first + turn + group.lane() % columns, columns);
    }
  }
};

}  // namespace gpupool::engine::portable
