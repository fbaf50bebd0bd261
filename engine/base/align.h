// Rounding of byte counts.
#pragma once

#include <cstdint>

namespace gpupool::engine {

// The alignment of every planned offset and allocation, in bytes.
inline constexpr uint64_t kAlignmentBytes = 64;

// Returns `bytes` rounded up to a multiple of `alignment`, a power of two. The
// result must fit 64 bits.
constexpr uint64_t AlignUp(uint64_t bytes,
                           uint64_t alignment = kAlignmentBytes) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

}  // namespace gpupool::engine
