// Describes ops that move elements as strided copies. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/backends/strides.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// One copy from an input to the output. The loops are in the output's memory
// order. Their operand 0 is the input, operand 1 the output.
struct StridedCopy {
  size_t input = 0;
  int64_t from = 0, to = 0;  // first element of each
  LoopNest loops;
};

struct MovementCopies {
  std::optional<double> fill;  // value of the whole output before the copies
  std::vector<StridedCopy> copies;
};

// Returns the copies of a reshape, layout conversion, broadcast, transpose,
// slice, pad, concat or the gradient of one of them. Returns nullopt for a pad
// that is not constant.
std::optional<MovementCopies> CopiesOf(const Graph& graph, const Node& node);

}  // namespace gpupool::engine
