#include "engine/import/onnx/classic/classic_parts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/graph_importer.h"
#include "engine/import/onnx/graph/lowering_parts.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

// Takes the softmax over the scores that are not 0. Those that are stay 0.
absl::StatusOr<ValueId> SoftmaxZero(NodeContext& ctx, ValueId x) {
  ASSIGN_OR_RETURN(const ValueId size, ctx.Unary(Unary::kAbs, x));
  ASSIGN_OR_RETURN(const ValueId counts,
                   ctx.Binary(Binary::kGreater, size, 1e-7));
  ASSIGN_OR_RETURN(const ValueId largest,
                   ctx.Reduce(ReduceFunction::kMax, x, {1}, true));
  ASSIGN_OR_RETURN(const ValueId shifted,
                   ctx.Binary(Binary::kSubtract, x, largest));
  ASSIGN_OR_RETURN(const ValueId power, ctx.Unary(Unary::kExp, shifted));
  ASSIGN_OR_RETURN(
      const ValueId kept,
      ctx.Emit(Op::kWhere, {counts, power, ctx.Scalar(ctx.dtype(x), 0)}));
  ASSIGN_OR_RETURN(const ValueId sum,
                   ctx.Reduce(ReduceFunction::kSum, kept, {1}, true));
  return ctx.Binary(Binary::kDivide, kept, sum);
}

// Returns sqrt(2) * erfinv(2 x - 1), with the approximation of the inverse of
// the error function by Winitzki (2008) that ONNX Runtime uses.
absl::StatusOr<ValueId> Probit(NodeContext& ctx, ValueId x) {
  constexpr double kA = 0.147;
  constexpr double kPi = 3.14159265358979;
  ASSIGN_OR_RETURN(const ValueId twice, ctx.Binary(Binary::kMultiply, x, 2.0));
  ASSIGN_OR_RETURN(const ValueId z, ctx.Binary(Binary::kSubtract, twice, 1.0));
  ASSIGN_OR_RETURN(const ValueId square, ctx.Binary(Binary::kMultiply, z, z));
  ASSIGN_OR_RETURN(const ValueId rest, OneMinus(ctx, square));
  ASSIGN_OR_RETURN(const ValueId log, ctx.Unary(Unary::kLog, rest));
  ASSIGN_OR_RETURN(const ValueId half, ctx.Binary(Binary::kMultiply, log, 0.5));
  ASSIGN_OR_RETURN(const ValueId v,
                   ctx.Binary(Binary::kAdd, half, 2 / (kPi * kA)));
  ASSIGN_OR_RETURN(const ValueId power, ctx.Binary(Binary::kMultiply, v, v));
  ASSIGN_OR_RETURN(const ValueId scaled,
                   ctx.Binary(Binary::kMultiply, log, 1 / kA));
  ASSIGN_OR_RETURN(const ValueId inner,
                   ctx.Binary(Binary::kSubtract, power, scaled));
  ASSIGN_OR_RETURN(const ValueId root, ctx.Unary(Unary::kSqrt, inner));
  ASSIGN_OR_RETURN(const ValueId outer, ctx.Binary(Binary::kSubtract, root, v));
  ASSIGN_OR_RETURN(const ValueId size, ctx.Unary(Unary::kSqrt, outer));
  ASSIGN_OR_RETURN(const ValueId sign, ctx.Unary(Unary::kSign, z));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Binary(Binary::kMultiply, sign, size));
  return ctx.Binary(Binary::kMultiply, y, 1.4142135623730951);
}

}  // namespace

absl::StatusOr<ValueId> FeatureRows(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, given, 1, 2));
  const Shape shape = ctx.shape(given);
  if (shape.elements() == 0) {
    return ctx.Refuse("the input ", shape.ToString(), " has no numbers");
  }
  ASSIGN_OR_RETURN(const ValueId rows, shape.rank() == 2
                                           ? absl::StatusOr<ValueId>(given)
                                           : ctx.Reshape(given, {1, shape[0]}));
  return ctx.Cast(rows, DType::kFloat32);
}

absl::StatusOr<ValueId> Listed(NodeContext& ctx, DType dtype,
                               absl::Span<const int64_t> dims,
                               std::vector<double> numbers) {
  ASSIGN_OR_RETURN(const Shape shape, MakeShape(ctx, dims));
  if (shape.elements() != static_cast<int64_t>(numbers.size())) {
    return ctx.Refuse("has ", numbers.size(), " numbers where ",
                      shape.ToString(), " are needed");
  }
  RETURN_IF_ERROR(ReserveNumbers(ctx, shape.elements()));
  return ctx.Constant({dtype, shape, std::move(numbers)});
}

absl::Status RequirePerFeature(const NodeContext& ctx, absl::string_view name,
                               int64_t size, int64_t features) {
  if (size == 1 || size == features) return absl::OkStatus();
  return ctx.Refuse("'", name, "' has ", size, " numbers and needs 1 or ",
                    features, ", one for each feature");
}

absl::StatusOr<ValueId> PerFeature(NodeContext& ctx, absl::string_view name,
                                   int64_t count) {
  ASSIGN_OR_RETURN(std::vector<double> numbers, ctx.Floats(name, {}));
  const auto size = static_cast<int64_t>(numbers.size());
  RETURN_IF_ERROR(RequirePerFeature(ctx, name, size, count));
  return Listed(ctx, DType::kFloat32, {size}, std::move(numbers));
}

absl::StatusOr<ScoreTransform> ReadTransform(const NodeContext& ctx) {
  ASSIGN_OR_RETURN(const int place, Choice(ctx, "post_transform",
                                           {"NONE", "SOFTMAX", "LOGISTIC",
                                            "SOFTMAX_ZERO", "PROBIT"}));
  return static_cast<ScoreTransform>(place);
}

absl::StatusOr<ValueId> Transformed(NodeContext& ctx, ValueId scores,
                                    ScoreTransform transform) {
  switch (transform) {
    case ScoreTransform::kNone:
      return scores;
    case ScoreTransform::kSoftmax:
      return ctx.Emit(Op::kSoftmax, {scores});
    case ScoreTransform::kLogistic:
      return ctx.Emit(Op::kSigmoid, {scores});
    case ScoreTransform::kSoftmaxZero:
      return SoftmaxZero(ctx, scores);
    case ScoreTransform::kProbit:
      return Probit(ctx, scores);
  }
  return ctx.Refuse("has an unknown post_transform");
}

absl::StatusOr<ClassLabels> ReadLabels(const NodeContext& ctx,
                                       absl::string_view integers) {
  ClassLabels labels;
  ASSIGN_OR_RETURN(labels.numbers, ctx.Ints(integers, {}));
  ASSIGN_OR_RETURN(labels.words, ctx.Strings("classlabels_strings"));
  if (labels.numbers.empty() == labels.words.empty()) {
    return ctx.Refuse("needs the labels of its classes in one of '", integers,
                      "' and 'classlabels_strings'");
  }
  return labels;
}

absl::Status SetLabels(NodeContext& ctx, ValueId places,
                       const ClassLabels& labels) {
  if (!labels.numbers.empty()) {
    std::vector<double> numbers(labels.numbers.begin(), labels.numbers.end());
    ASSIGN_OR_RETURN(
        const ValueId table,
        Listed(ctx, DType::kInt64, {labels.count()}, std::move(numbers)));
    return Finish(ctx,
                  ctx.Emit(Op::kGather, {table, places}, AxisAttributes{0}));
  }
  if (!ctx.wants_output(0)) return absl::OkStatus();
  constexpr size_t kMostShown = 10;
  const size_t shown = std::min(labels.words.size(), kMostShown);
  ctx.importer().Warn(absl::StrCat(
      ctx.Name(), ": its labels are texts, which are not served; its first ",
      "output is the place of the class among: ",
      absl::StrJoin(labels.words.begin(),
                    labels.words.begin() + static_cast<ptrdiff_t>(shown), ", "),
      shown < labels.words.size() ? ", ..." : ""));
  ctx.Set(0, places);
  return absl::OkStatus();
}

absl::StatusOr<ValueId> LargestPlace(NodeContext& ctx, ValueId scores) {
  ArgReduceAttributes largest;
  largest.axis = 1;
  return ctx.Emit(Op::kArgReduce, {scores}, largest);
}

absl::StatusOr<ValueId> OneMinus(NodeContext& ctx, ValueId x) {
  ASSIGN_OR_RETURN(const ValueId minus, ctx.Unary(Unary::kNegate, x));
  return ctx.Binary(Binary::kAdd, minus, 1.0);
}

absl::StatusOr<ValueId> TwoColumns(NodeContext& ctx, ValueId first,
                                   ValueId second) {
  return Concat(ctx, {first, second}, 1);
}

absl::StatusOr<ValueId> BothScores(NodeContext& ctx, ValueId score,
                                   ScoreTransform transform, bool mirrored) {
  if (transform == ScoreTransform::kProbit) return Probit(ctx, score);
  if (!mirrored && transform != ScoreTransform::kLogistic) {
    ASSIGN_OR_RETURN(const ValueId rest, OneMinus(ctx, score));
    return TwoColumns(ctx, rest, score);
  }
  ASSIGN_OR_RETURN(const ValueId minus, ctx.Unary(Unary::kNegate, score));
  if (transform == ScoreTransform::kLogistic) {
    ASSIGN_OR_RETURN(const ValueId negative, ctx.Emit(Op::kSigmoid, {minus}));
    ASSIGN_OR_RETURN(const ValueId positive, ctx.Emit(Op::kSigmoid, {score}));
    return TwoColumns(ctx, negative, positive);
  }
  return TwoColumns(ctx, minus, score);
}

}  // namespace gpupool::engine::onnx_import
