// Products of imported graphs, with the op that has the best kernel for the
// shapes at hand. Pure functions of the context.
#pragma once

#include "absl/status/statusor.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// The product of NumPy's matmul: inputs of rank 1 count as a row on the left
// and a column on the right, leading axes broadcast.
absl::StatusOr<ValueId> MatrixProduct(NodeContext& ctx, ValueId a, ValueId b);

// The convolution of x with w that the node's attributes describe, over one to
// three spatial axes.
struct ConvolutionInputs {
  ValueId x;
  ValueId w;
  ValueId bias;  // invalid: none
};
absl::StatusOr<ValueId> Convolution(NodeContext& ctx,
                                    const ConvolutionInputs& inputs);

}  // namespace gpupool::engine::onnx_import
