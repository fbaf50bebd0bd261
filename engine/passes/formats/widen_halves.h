// Computes a graph of 16-bit numbers in float32. Models in float16 and bfloat16
// run so where 16-bit arithmetic is slow or too narrow, and are trained so:
// with float32 weights, to which small steps still add. Autocast is the way
// back: products in 16 bits, the rest in float32. Pure.
//
//   weights, state  float32; the 16-bit numbers of a file are exact in it
//   constants       float32, with the numbers that they had
//   results         float32, hence not rounded to 16 bits
//   inputs          stay, and are cast once; or become float32
//   casts to 16 bits  vanish, since nothing is rounded between nodes
//
// Two kinds of values stay as they are:
// - state that only casts read, such as numbers of a narrower type that the
//   file has no bits for,
// - the result of a cast to 16 bits that only casts read: the model rounds here
//   on purpose.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

struct WidenOptions {
  // Whether 16-bit inputs become float32 inputs.
  bool inputs = false;
  // Whether casts that only round vanish as well. Gradients through them would
  // be rounded, too.
  bool roundings = false;
};

constexpr bool IsHalf(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

// Rewrites a forward graph without outputs. Returns for each value that it had
// the value that now stands for it: itself, or the operand of a cast that
// vanished.
absl::StatusOr<std::vector<ValueId>> WidenHalves(const WidenOptions& options,
                                                 Graph& graph);

}  // namespace gpupool::engine
