// Strided copies and fills of elements of any size, in the widest words that
// the strides allow. Host only.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "engine/backends/portable/arithmetic/walk.h"
#include "engine/backends/portable/launch/launch.h"
#include "engine/backends/strides.h"

namespace gpupool::engine::portable {

// A copy between two buffers that are aligned to 16 bytes. Plain data.
struct CopyPlan {
  int64_t count = 0;         // calls of the functor
  int32_t word_bytes = 1;    // of what one call moves
  int64_t from = 0, to = 0;  // words before the first
  Walk<2> walk{};            // in words, or over blocks
  bool transpose = false;    // by blocks
  int64_t from_line = 0, to_line = 0;
};

// Returns the plan of a copy. Operand 0 of the loops is the source, operand 1
// the target. Strides and the two offsets count elements. No two iterations may
// write the same element.
CopyPlan PlanCopy(LoopNest loops, int64_t from, int64_t to,
                  uint64_t element_bytes);

void LaunchCopy(LaunchStream stream, const CopyPlan& plan,
                const std::byte* from, std::byte* to);

// Queues a fill of `count` elements with the bytes of `element`, which lies in
// host memory.
void LaunchFill(LaunchStream stream, std::byte* to, int64_t count,
                absl::Span<const std::byte> element);

}  // namespace gpupool::engine::portable
