// Elementwise functions over short rows of float32, for kernels that work tile
// by tile. Truth values are 1 and 0.
#pragma once

#include <cstdint>

#include "engine/graph/attributes.h"
#include "engine/graph/ops.h"

namespace gpupool::engine {

// The attributes that a row function may read.
struct RowNumbers {
  float alpha = 0;
  float beta = 0;
  UnaryAttributes unary;
  BinaryFunction binary = BinaryFunction::kAdd;
};

// Computes y[i] = f(x[0][i], x[1][i], ...) for i < count. y may be one of the
// operands. Rows need no alignment, and nothing beyond them is touched.
using RowFunction = void (*)(const float* const* x, float* y, int64_t count,
                             const RowNumbers& numbers);

// The function of an op and its attributes. The function is null for an op that
// is not elementwise.
struct RowStep {
  RowFunction function = nullptr;
  RowNumbers numbers;
  int flops = 1;  // approximate operations per element
};
RowStep RowStepOf(Op op, const Attributes& attributes);

// Return the SIMD function of one family, or null when there is none.
RowFunction UnaryRowFunction(UnaryFunction function);
RowFunction UnaryGradRowFunction(UnaryFunction function);
RowFunction BinaryRowFunction(BinaryFunction function);
// Returns the function of an activation, its gradient, where, or a cast between
// float32 and bool.
RowFunction PlainRowFunction(Op op, const Attributes& attributes);

}  // namespace gpupool::engine
