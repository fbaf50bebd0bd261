// Averages over windows and over whole images. Pure functions of the context.
#pragma once

#include "absl/status/statusor.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// Returns the averages of x [N, C, ...] over the windows that the node's
// attributes describe.
absl::StatusOr<ValueId> AveragePool(NodeContext& ctx, ValueId x);

// Returns the averages of x [N, C, ...] over all axes after the second, which
// stay with a size of 1.
absl::StatusOr<ValueId> GlobalAveragePool(NodeContext& ctx, ValueId x);

}  // namespace gpupool::engine::onnx_import
