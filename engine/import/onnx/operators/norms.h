// Normalisation by the root of the mean square. Pure functions of the context.
#pragma once

#include "absl/status/statusor.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

struct RmsNorm {
  ValueId y;
  ValueId root;  // sqrt(mean(x^2) + epsilon), with axes of size 1
};

struct RmsNormOptions {
  int axis = 0;  // the first axis of the mean
  double epsilon = 1e-5;
};

// Returns x / sqrt(mean(x^2) + epsilon) * scale (Zhang and Sennrich 2019, arXiv
// 1910.07467).
absl::StatusOr<RmsNorm> RmsNormOf(NodeContext& ctx, ValueId x, ValueId scale,
                                  const RmsNormOptions& options);

}  // namespace gpupool::engine::onnx_import
