#include "engine/backends/portable/launch/choose_parts.h"

#include <algorithm>

#include "engine/backends/portable/launch/launch.h"
#include "engine/backends/portable/launch/maker.h"

namespace gpupool::engine::portable {
namespace {

// Sums of a tile. The threads of a warp then read 64 bytes of 16-bit numbers,
// which are two whole sectors of 32.
constexpr int64_t kMostTile = 32;
// Least numbers of a part that a lane adds. In a tile, a part then has 128
// rows: 256 bytes or more for each pair of sums of 16 bytes that is written and
// read again.
constexpr int64_t kLeastNumbers = 32;

}  // namespace

Parts ChooseParts(SumBy by, int64_t sums, int64_t count,
                  int64_t resident_threads) {
  Parts chosen;
  chosen.count = count;
  if (by == SumBy::kColumns) {
    while (chosen.tile < std::min(kMostTile, sums)) chosen.tile *= 2;
  }
  chosen.tiles = CeilDivide(sums, chosen.tile);
  const int64_t lanes = by == SumBy::kThread ? 1 : kGroupLanes;
  // As many parts as keep the device busy, but none too small.
  const int64_t wanted =
      resident_threads / std::max<int64_t>(chosen.tiles * lanes, 1);
  const int64_t most = count / (kLeastNumbers * lanes / chosen.tile);
  const int64_t parts = std::max<int64_t>(std::min(wanted, most), 1);
  chosen.per_part = std::max<int64_t>(CeilDivide(count, parts), 1);
  chosen.parts = std::max<int64_t>(CeilDivide(count, chosen.per_part), 1);
  return chosen;
}

}  // namespace gpupool::engine::portable
