// Linear models of ai.onnx.ml.
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/classic/classic_parts.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

// Returns x times the coefficients [targets, features], plus the intercepts,
// which may be absent.
absl::StatusOr<ValueId> LinearScores(NodeContext& ctx, ValueId x,
                                     int64_t targets) {
  const int64_t features = ctx.shape(x)[1];
  ASSIGN_OR_RETURN(std::vector<double> coefficients,
                   ctx.Floats("coefficients", {}));
  ASSIGN_OR_RETURN(std::vector<double> intercepts,
                   ctx.Floats("intercepts", {}));
  const auto size = static_cast<int64_t>(coefficients.size());
  if (targets < 1 || targets > kMaxListedNumbers ||
      size != targets * features) {
    return ctx.Refuse("'coefficients' has ", size, " numbers; ", targets,
                      " targets of ", features, " features need one each");
  }
  ASSIGN_OR_RETURN(const ValueId w,
                   Listed(ctx, DType::kFloat32, {targets, features},
                          std::move(coefficients)));
  MatMulAttributes product;
  product.transpose_b = true;
  ASSIGN_OR_RETURN(const ValueId y, ctx.Emit(Op::kMatMul, {x, w}, product));
  if (intercepts.empty()) return y;
  if (static_cast<int64_t>(intercepts.size()) != targets) {
    return ctx.Refuse("'intercepts' has ", intercepts.size(),
                      " numbers and needs ", targets);
  }
  ASSIGN_OR_RETURN(const ValueId b, Listed(ctx, DType::kFloat32, {targets},
                                           std::move(intercepts)));
  return ctx.Binary(Binary::kAdd, y, b);
}

absl::Status LowerLinearRegressor(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, FeatureRows(ctx));
  ASSIGN_OR_RETURN(const int64_t targets, ctx.Int("targets", 1));
  ASSIGN_OR_RETURN(const ScoreTransform transform, ReadTransform(ctx));
  ASSIGN_OR_RETURN(const ValueId scores, LinearScores(ctx, x, targets));
  return Finish(ctx, Transformed(ctx, scores, transform));
}

// Sets the outputs of a classifier with one score, whose sign decides. Two
// labels make two columns of scores.
absl::Status SetOneScore(NodeContext& ctx, ValueId score,
                         const ClassLabels& given, ScoreTransform transform) {
  ASSIGN_OR_RETURN(const ValueId flat,
                   ctx.Reshape(score, {ctx.shape(score)[0]}));
  ASSIGN_OR_RETURN(const ValueId above,
                   ctx.Binary(Binary::kGreater, flat, 0.0));
  ASSIGN_OR_RETURN(const ValueId places, ctx.Cast(above, DType::kInt64));
  ClassLabels labels = given;
  if (labels.count() != 2) labels = {.numbers = {0, 1}, .words = {}};
  RETURN_IF_ERROR(SetLabels(ctx, places, labels));
  ASSIGN_OR_RETURN(const ValueId scores,
                   given.count() == 2 ? BothScores(ctx, score, transform, false)
                                      : Transformed(ctx, score, transform));
  ctx.Set(1, scores);
  return absl::OkStatus();
}

absl::Status LowerLinearClassifier(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, FeatureRows(ctx));
  ASSIGN_OR_RETURN(const ClassLabels labels,
                   ReadLabels(ctx, "classlabels_ints"));
  ASSIGN_OR_RETURN(const ScoreTransform transform, ReadTransform(ctx));
  ASSIGN_OR_RETURN(const std::vector<double> coefficients,
                   ctx.Floats("coefficients", {}));
  const int64_t scores_per_row =
      static_cast<int64_t>(coefficients.size()) / ctx.shape(x)[1];
  ASSIGN_OR_RETURN(const ValueId scores, LinearScores(ctx, x, scores_per_row));
  if (scores_per_row == 1) return SetOneScore(ctx, scores, labels, transform);
  if (labels.count() != scores_per_row) {
    return ctx.Refuse("has ", labels.count(), " labels for ", scores_per_row,
                      " scores of each row");
  }
  ASSIGN_OR_RETURN(const ValueId places, LargestPlace(ctx, scores));
  RETURN_IF_ERROR(SetLabels(ctx, places, labels));
  ASSIGN_OR_RETURN(const ValueId transformed,
                   Transformed(ctx, scores, transform));
  ctx.Set(1, transformed);
  return absl::OkStatus();
}

}  // namespace

absl::Span<const OperatorEntry> LinearModelOperators() {
  static constexpr absl::string_view kFamily = "linear models";
  static const OperatorEntry rows[] = {
      {kMl, "LinearClassifier", kFamily, kShapes, LowerLinearClassifier},
      {kMl, "LinearRegressor", kFamily, kShapes, LowerLinearRegressor},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
