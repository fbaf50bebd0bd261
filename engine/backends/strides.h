// How loops over several values of one shape walk through memory. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/graph/graph.h"

namespace gpupool::engine {

// Elements between neighbours along each axis, by the value's layout.
std::vector<int64_t> MemoryStrides(const Shape& shape, Layout layout);

// The axes from the outermost in memory to the innermost.
std::vector<int> MemoryOrder(int rank, Layout layout);

// A nest of loops, outermost first, and for each operand the elements that it
// moves by with a step of each loop.
struct LoopNest {
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> strides;  // [operand][loop]

  int64_t count() const;
  // Merges loops that all operands walk through as one; drops loops of one.
  void Collapse();
};

// Loops over `to` in its memory order; each of `from` broadcasts to it.
// Operands are those of `from`, then `to`.
LoopNest BroadcastLoops(const std::vector<const Value*>& from, const Value& to);

}  // namespace gpupool::engine
