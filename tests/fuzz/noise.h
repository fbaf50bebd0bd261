// The error that honest arithmetic may make in a graph, measured on the graph
// itself.
//
// The rule: a copy of the graph has every floating operand of every rounding
// node multiplied by 1 + e, where |e| is half to one unit in the last place of
// the operand's type (times 4 for float32 and float64, whose kernels
// approximate functions). The copy runs some times with other numbers e. What
// its outputs differ by is what another order of sums or a wider intermediate
// may change, however badly conditioned the graph is. Logarithms and the error
// function get an absolute error as well. Nodes that only move, compare or
// select do not round and get no noise, so their results must agree exactly.
//
// Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/graph/graph.h"

namespace gpupool::engine::fuzz {

// Returns the noisy copy.
Graph WithNoise(const Graph& graph, uint64_t seed);

// Returns why the graph's results are not defined for these numbers:
// - a cast of a number beyond the type, a division of integers by zero, an
//   integer that doubles do not hold, an order of NaN,
// - an infinity or NaN in an operand of a window or a norm, where libraries
//   differ in whether zeros of the padding are multiplied by it,
// - NaN in a limit, which kernels may take for the limit,
// - a softmax of infinities: a fused attention gives zeros for -infinity alone,
// - a number above 10^18 in a sum of products, whose square is no float32.
// Empty if they are defined. `numbers` holds the elements of each
// value that a node writes, by index.
std::string WhyUndefined(const Graph& graph,
                         const std::vector<std::vector<double>>& numbers);

}  // namespace gpupool::engine::fuzz
