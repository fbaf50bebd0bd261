// Ops that copy elements from place to place, as strided copies. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/backends/strides.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Elements of an input to places of the output. Operand 0 of the loops, which
// are in the output's memory order, is the input, operand 1 the output.
struct StridedCopy {
  size_t input = 0;
  int64_t from = 0, to = 0;  // the first element
  LoopNest loops;
};

struct MovementCopies {
  std::optional<double> fill;  // of the whole output, before the copies
  std::vector<StridedCopy> copies;
};

// Of a reshape, layout conversion, broadcast, transpose, slice, pad, concat or
// the gradient of one of them; nullopt of a pad by other than a constant.
std::optional<MovementCopies> CopiesOf(const Graph& graph, const Node& node);

}  // namespace gpupool::engine
