// Loops that walk through the memory of several values of one shape. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"

namespace gpupool::engine {

// Returns the distance in elements between neighbours along each axis.
std::vector<int64_t> MemoryStrides(const Shape& shape, Layout layout);

// Returns the axes in the order of memory, outermost first.
std::vector<int> MemoryOrder(int rank, Layout layout);

// A nest of loops, outermost first. A step of a loop moves each operand by a
// number of elements.
struct LoopNest {
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> strides;  // [operand][loop]

  int64_t count() const;
  // Merges neighbouring loops where all operands allow it, and drops loops of
  // one iteration.
  void Collapse();
};

// Returns loops over `to` in its memory order. Each value of `from` must
// broadcast to `to`. The operands are the values of `from`, then `to`.
LoopNest BroadcastLoops(const std::vector<const Value*>& from, const Value& to);

}  // namespace gpupool::engine
