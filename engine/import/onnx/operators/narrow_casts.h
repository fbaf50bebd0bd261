// Rounds values to the narrow element types of ONNX. Pure functions of their
// context.
#pragma once

#include "absl/status/statusor.h"
#include "engine/import/onnx/file/narrow_types.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

struct IntegerBits {
  int count;
  bool is_signed;
  DType held_as;
};
// Returns integers that have the lowest bits of x, of at most 32. Floating
// numbers are cut to whole ones first.
absl::StatusOr<ValueId> LowestBits(NodeContext& ctx, ValueId x,
                                   const IntegerBits& bits);

// Returns x as a value of the type that `type` is held as, with numbers of
// `type` only. Integers lose their higher bits. Floating numbers are rounded to
// nearest, half to even. Those that are too large become the largest one, or
// without `saturate` infinity or NaN. UNIMPLEMENTED for FLOAT8E8M0.
absl::StatusOr<ValueId> CastToNarrow(NodeContext& ctx, ValueId x,
                                     const NarrowType& type, bool saturate);

}  // namespace gpupool::engine::onnx_import
