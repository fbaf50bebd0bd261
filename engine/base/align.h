// Rounding of byte counts.
#pragma once

#include <cstdint>

namespace gpupool::engine {

// Every planned offset and allocation is a multiple of this.
inline constexpr uint64_t kAlignmentBytes = 64;

// `bytes` rounded up to a multiple of `alignment`, a power of two. The caller
// guarantees that the result fits 64 bits.
constexpr uint64_t AlignUp(uint64_t bytes,
                           uint64_t alignment = kAlignmentBytes) {
  return (bytes + alignment - 1) & ~(alignment - 1);
}

}  // namespace gpupool::engine
