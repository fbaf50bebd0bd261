// Products of 8-bit integers whose result is made of real numbers. Pure
// functions of the context.
#pragma once

#include "absl/status/statusor.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// Returns x - zero point in float32, which holds all differences of 8-bit
// numbers. The zero point is input `zero`: absent, one number, or one per cell
// of the axis, which may be negative.
absl::StatusOr<ValueId> CentredReal(NodeContext& ctx, ValueId x, int zero,
                                    int axis);

// Returns y times input `scale`: one number, or one per cell of the last axis.
absl::StatusOr<ValueId> TimesScale(NodeContext& ctx, ValueId y, int scale);

}  // namespace gpupool::engine::onnx_import
