// Products of imported graphs, with the op that has the best kernel for the
// shapes at hand. Pure functions of the context.
#pragma once

#include "absl/status/statusor.h"
#include "engine/import/onnx/node_context.h"

namespace gpupool::engine::onnx_import {

// The product of NumPy's matmul: inputs of rank 1 count as a row on the left
// and a column on the right, leading axes broadcast.
absl::StatusOr<ValueId> MatrixProduct(NodeContext& ctx, ValueId a, ValueId b);

}  // namespace gpupool::engine::onnx_import
