// Chooses how long sums are shared out. Host only.
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/parts.h"

namespace gpupool::engine::portable {

enum class SumBy : uint8_t {
  kThread,   // one thread for each part: any order in memory, any arithmetic
  kRow,      // a sum's numbers are neighbours: one group for each part
  kColumns,  // neighbouring sums' numbers are: one group for a tile
};

// For `sums` sums of `count` numbers each on a device that runs
// `resident_threads` at once.
Parts ChooseParts(SumBy by, int64_t sums, int64_t count,
                  int64_t resident_threads);

}  // namespace gpupool::engine::portable
