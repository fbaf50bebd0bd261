// Converts to and from quantised numbers, for the operators of both domains.
// Pure functions of the context.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// Reshapes one number, or one number per cell of the axis, so that it
// broadcasts to a value of that rank.
absl::StatusOr<ValueId> AlongAxis(NodeContext& ctx, ValueId x, int rank,
                                  int axis);

// Returns the element type (TensorProto.DataType) of the codes whose zero point
// is an input. A computed zero point has the type of its value.
int64_t CodeType(const NodeContext& ctx, int zero_input, DType dtype);

// The codes round(x / scale) + zero, clamped to the range of the element type.
struct Codes {
  ValueId scale, zero;
  int64_t element_type;  // in the file
};

// Adds the codes of x. x, scale and zero must be floating.
absl::StatusOr<ValueId> Quantized(NodeContext& ctx, ValueId x,
                                  const Codes& codes);

// Codes 0 to 255 of a value, whose range follows from its extremes.
struct DynamicCodes {
  ValueId y, scale;
  ValueId zero;  // in x's type
};
absl::StatusOr<DynamicCodes> QuantizedByRange(NodeContext& ctx, ValueId x);

}  // namespace gpupool::engine::onnx_import
