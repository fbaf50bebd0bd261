// Chooses how to cut long sums into parts. Host only.
#pragma once

#include <cstdint>

#include "engine/backends/portable/arithmetic/parts.h"

namespace gpupool::engine::portable {

enum class SumBy : uint8_t {
  kThread,   // a thread for each part: any order in memory, any arithmetic
  kRow,      // a group for each part: a sum's numbers are neighbours
  kColumns,  // a group for each tile: neighbouring sums' numbers are
};

// Returns the parts for `sums` sums of `count` numbers each, on a device that
// runs `resident_threads` threads at once.
Parts ChooseParts(SumBy by, int64_t sums, int64_t count,
                  int64_t resident_threads);

}  // namespace gpupool::engine::portable
