// Elementwise functions over short rows of float32, for kernels that work tile
// by tile. Truth values are 1 and 0.
#pragma once

#include <cstdint>

#include "engine/graph/attributes.h"
#include "engine/graph/ops.h"

namespace gpupool::engine {

// What a row function may need besides its operands.
struct RowNumbers {
  float alpha = 0;
  float beta = 0;
  UnaryAttributes unary;
  BinaryFunction binary = BinaryFunction::kAdd;
};

// y[i] = f(x[0][i], x[1][i], ...) for i < count. y may be one of the operands;
// nothing needs to be aligned, and nothing beyond the rows is touched.
using RowFunction = void (*)(const float* const* x, float* y, int64_t count,
                             const RowNumbers& numbers);

// The function of an op and its numbers; null when the op is not elementwise.
struct RowStep {
  RowFunction function = nullptr;
  RowNumbers numbers;
  int flops = 1;  // about, per element
};
RowStep RowStepOf(Op op, const Attributes& attributes);

// Those of one family; null: none with vectors.
RowFunction UnaryRowFunction(UnaryFunction function);
RowFunction UnaryGradRowFunction(UnaryFunction function);
RowFunction BinaryRowFunction(BinaryFunction function);
// Activations, their gradients, where and casts between float32 and bool.
RowFunction PlainRowFunction(Op op, const Attributes& attributes);

}  // namespace gpupool::engine
