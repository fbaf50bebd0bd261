// Adds products to imported graphs, with the op that has the best kernel for
// the shapes. Pure functions of the context.
#pragma once

#include "absl/status/statusor.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// Returns NumPy's matmul of a and b. An operand of rank 1 counts as a row on
// the left and as a column on the right. Leading axes broadcast.
absl::StatusOr<ValueId> MatrixProduct(NodeContext& ctx, ValueId a, ValueId b);

// Returns alpha * A B + beta * C of a Gemm node, whose first inputs are A, B
// and the optional C.
absl::StatusOr<ValueId> Gemm(NodeContext& ctx);

// Operands of Convolution, which convolves x with w over one to three spatial
// axes as the node's attributes describe.
struct ConvolutionInputs {
  ValueId x;
  ValueId w;
  ValueId bias;  // invalid: none
};
absl::StatusOr<ValueId> Convolution(NodeContext& ctx,
                                    const ConvolutionInputs& inputs);

}  // namespace gpupool::engine::onnx_import
