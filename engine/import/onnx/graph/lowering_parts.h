// Steps that many lowerings share: axes, known integers, slices, shapes. Pure
// functions of their context.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// Sets output 0 or returns the error of `y`.
absl::Status Finish(NodeContext& ctx, absl::StatusOr<ValueId> y);

// Returns the axes in rising order, counted from 0. INVALID_ARGUMENT when one
// is out of range or named twice.
absl::StatusOr<std::vector<int>> NormalAxes(const NodeContext& ctx,
                                            absl::Span<const int64_t> axes,
                                            int rank);
// Returns 0, 1, ..., rank - 1.
std::vector<int> AllAxes(int rank);

// Returns the position of a string attribute's value among `words`, or 0 when
// it is absent. INVALID_ARGUMENT lists the words.
absl::StatusOr<int> Choice(const NodeContext& ctx, absl::string_view name,
                           std::initializer_list<absl::string_view> words);

// Returns the known integers of an input of rank 0 or 1.
absl::StatusOr<std::vector<int64_t>> KnownInts(NodeContext& ctx, int input,
                                               absl::string_view what);
// Returns one known integer.
absl::StatusOr<int64_t> KnownInt(NodeContext& ctx, int input,
                                 absl::string_view what);
absl::StatusOr<double> KnownFloat(NodeContext& ctx, int input,
                                  absl::string_view what);

// Integers that are the attribute `name` before opset `input_since` and input
// `input` from then on. Empty when both are absent.
struct MovedInts {
  int input = 1;
  absl::string_view name = "axes";
  int input_since = 13;
};
absl::StatusOr<std::vector<int64_t>> AttributeOrInput(NodeContext& ctx,
                                                      const MovedInts& where);

// Does Shape::CreateMaybeEmpty, with the node's name in front of errors.
absl::StatusOr<Shape> MakeShape(const NodeContext& ctx,
                                absl::Span<const int64_t> dims);
// Returns the product of dims [from, to) of a valid shape.
int64_t Product(const Shape& shape, int from, int to);
std::vector<int64_t> Dims(const Shape& shape);

// Returns the NumPy broadcast of both shapes.
absl::StatusOr<Shape> BroadcastShape(const NodeContext& ctx, const Shape& a,
                                     const Shape& b);

// Returns a constant whose elements are all `number`.
absl::StatusOr<ValueId> Filled(NodeContext& ctx, DType dtype,
                               const Shape& shape, double number);

// Takes `count` numbers from the import's budget. Must be called before the
// numbers of a constant are listed. INVALID_ARGUMENT above kMaxListedNumbers or
// when too little is left.
absl::Status ReserveNumbers(NodeContext& ctx, int64_t count);
inline constexpr int64_t kMaxListedNumbers = int64_t{1} << 22;
// Returns an int64 constant 0, 1, ..., size - 1.
absl::StatusOr<ValueId> Positions(NodeContext& ctx, int64_t size);

// Reshapes. Also takes constants without elements.
absl::StatusOr<ValueId> ReshapeMaybeEmpty(NodeContext& ctx, ValueId x,
                                          absl::Span<const int64_t> dims);

// Cells start, start + step, ... of one axis, `size` >= 0 of them. Slicing by
// it returns the value itself when the range is the whole axis.
struct AxisRange {
  int axis = 0;
  int64_t start = 0;
  int64_t size = 1;
  int64_t step = 1;
};
absl::StatusOr<ValueId> SliceAxis(NodeContext& ctx, ValueId x,
                                  const AxisRange& range);
// Concatenates. Drops empty parts. Needs at least one part.
absl::StatusOr<ValueId> Concat(NodeContext& ctx,
                               absl::Span<const ValueId> parts, int axis);
// Returns row `index` along an axis, without the axis.
absl::StatusOr<ValueId> TakeRow(NodeContext& ctx, ValueId x, int axis,
                                int64_t index);
// Pads with zeros or `value`. Both lists have one entry >= 0 per axis.
absl::StatusOr<ValueId> PadWith(NodeContext& ctx, ValueId x,
                                std::vector<int64_t> before,
                                std::vector<int64_t> after, double value);

// Move one axis to the end and back. The other axes keep their order.
absl::StatusOr<ValueId> MoveLast(NodeContext& ctx, ValueId x, int axis);
absl::StatusOr<ValueId> MoveFromLast(NodeContext& ctx, ValueId x, int axis);

// Reshapes [C] to [1, C, 1, ...] of the given rank.
absl::StatusOr<ValueId> PerChannel(NodeContext& ctx, ValueId x, int rank);

// Returns the sum. Uses the op that fuses if the shapes are equal.
absl::StatusOr<ValueId> Plus(NodeContext& ctx, ValueId a, ValueId b);

absl::Status RequireFloating(const NodeContext& ctx, ValueId x);
absl::Status RequireRank(const NodeContext& ctx, ValueId x, int at_least,
                         int at_most = kMaxRank);

}  // namespace gpupool::engine::onnx_import
