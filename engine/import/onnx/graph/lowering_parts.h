// Small steps that many lowerings share: axes, known integers, slices, shapes.
// Pure functions of the context that they are given.
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

// Sets output 0, or passes the error on.
absl::Status Finish(NodeContext& ctx, absl::StatusOr<ValueId> y);

// Rising and distinct axes of a value of that rank. InvalidArgument when one
// is out of range or named twice.
absl::StatusOr<std::vector<int>> NormalAxes(const NodeContext& ctx,
                                            absl::Span<const int64_t> axes,
                                            int rank);
// 0, 1, ..., rank - 1.
std::vector<int> AllAxes(int rank);

// Which of the words a string attribute is; the first when it is absent.
// InvalidArgument lists the words.
absl::StatusOr<int> Choice(const NodeContext& ctx, absl::string_view name,
                           std::initializer_list<absl::string_view> words);

// The known integers of an input of rank 0 or 1.
absl::StatusOr<std::vector<int64_t>> KnownInts(NodeContext& ctx, int input,
                                               absl::string_view what);
// One known number.
absl::StatusOr<int64_t> KnownInt(NodeContext& ctx, int input,
                                 absl::string_view what);
absl::StatusOr<double> KnownFloat(NodeContext& ctx, int input,
                                  absl::string_view what);

// Integers that are the attribute `name` before opset `input_since` and input
// `input` from then on; empty when neither is there.
struct MovedInts {
  int input = 1;
  absl::string_view name = "axes";
  int input_since = 13;
};
absl::StatusOr<std::vector<int64_t>> AttributeOrInput(NodeContext& ctx,
                                                      const MovedInts& where);

// Shape::CreateMaybeEmpty with the node's name in front of errors.
absl::StatusOr<Shape> MakeShape(const NodeContext& ctx,
                                absl::Span<const int64_t> dims);
// The product of dims [from, to) of a sound shape.
int64_t Product(const Shape& shape, int from, int to);
std::vector<int64_t> Dims(const Shape& shape);

// The NumPy broadcast of the two.
absl::StatusOr<Shape> BroadcastShape(const NodeContext& ctx, const Shape& a,
                                     const Shape& b);

// A constant that repeats `number`.
absl::StatusOr<ValueId> Filled(NodeContext& ctx, DType dtype,
                               const Shape& shape, double number);

// To be called before numbers are listed for a constant: takes them from what
// one import may compute. InvalidArgument above kMaxListedNumbers, or when
// nothing is left.
absl::Status ReserveNumbers(NodeContext& ctx, int64_t count);
inline constexpr int64_t kMaxListedNumbers = int64_t{1} << 22;
// An int64 constant 0, 1, ..., size - 1.
absl::StatusOr<ValueId> Positions(NodeContext& ctx, int64_t size);

// A reshape that constants without elements may take part in.
absl::StatusOr<ValueId> ReshapeMaybeEmpty(NodeContext& ctx, ValueId x,
                                          absl::Span<const int64_t> dims);

// Cells start, start + step, ... of one axis; the whole value when that is
// all of it. size >= 0.
struct AxisRange {
  int axis = 0;
  int64_t start = 0;
  int64_t size = 1;
  int64_t step = 1;
};
absl::StatusOr<ValueId> SliceAxis(NodeContext& ctx, ValueId x,
                                  const AxisRange& range);
// Empty parts are dropped. At least one part.
absl::StatusOr<ValueId> Concat(NodeContext& ctx,
                               absl::Span<const ValueId> parts, int axis);
// Row `index` of an axis, without the axis.
absl::StatusOr<ValueId> TakeRow(NodeContext& ctx, ValueId x, int axis,
                                int64_t index);
// Zeros (or `value`) around; one entry per axis, each >= 0.
absl::StatusOr<ValueId> PadWith(NodeContext& ctx, ValueId x,
                                std::vector<int64_t> before,
                                std::vector<int64_t> after, double value);

// Moves one axis to the end, the others keep their order; and back.
absl::StatusOr<ValueId> MoveLast(NodeContext& ctx, ValueId x, int axis);
absl::StatusOr<ValueId> MoveFromLast(NodeContext& ctx, ValueId x, int axis);

// [C] -> [1, C, 1, ...] of that rank.
absl::StatusOr<ValueId> PerChannel(NodeContext& ctx, ValueId x, int rank);

// The sum, with the op that fuses where the shapes agree.
absl::StatusOr<ValueId> Plus(NodeContext& ctx, ValueId a, ValueId b);

absl::Status RequireFloating(const NodeContext& ctx, ValueId x);
absl::Status RequireRank(const NodeContext& ctx, ValueId x, int at_least,
                         int at_most = kMaxRank);

}  // namespace gpupool::engine::onnx_import
