// Losses of classification, over scores [N, C, d...] and labels [N, d...].
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

enum class LossReduction : uint8_t { kMean, kSum, kNone };

struct LossNode {
  ValueId scores;  // [rows, classes], scores or log-probabilities
  ValueId labels;  // [rows]
  Shape label_shape;
  LossReduction reduction = LossReduction::kMean;
  bool has_ignored = false;
  int64_t ignored = 0;
};

// Reshapes x [N, C, d...] to [rows, C].
absl::StatusOr<ValueId> ChannelsAsRows(NodeContext& ctx, ValueId x) {
  ASSIGN_OR_RETURN(const ValueId moved, MoveLast(ctx, x, 1));
  const int64_t classes = ctx.shape(x)[1];
  return ctx.Reshape(moved, {ctx.shape(x).elements() / classes, classes});
}

absl::StatusOr<LossNode> ReadLoss(NodeContext& ctx) {
  LossNode loss;
  ASSIGN_OR_RETURN(const ValueId scores, ctx.Input(0));
  ASSIGN_OR_RETURN(const ValueId labels, ctx.Input(1));
  RETURN_IF_ERROR(RequireRank(ctx, scores, 2));
  RETURN_IF_ERROR(RequireFloating(ctx, scores));
  std::vector<int64_t> dims = Dims(ctx.shape(scores));
  dims.erase(dims.begin() + 1);
  ASSIGN_OR_RETURN(loss.label_shape, MakeShape(ctx, dims));
  if (ctx.shape(labels) != loss.label_shape) {
    return ctx.Refuse("labels are ", ctx.shape(labels).ToString(),
                      " but must be ", loss.label_shape.ToString());
  }
  if (ctx.shape(scores)[1] == 0) {
    return ctx.Refuse("scores ", ctx.shape(scores).ToString(),
                      " must have at least one class");
  }
  ASSIGN_OR_RETURN(loss.scores, ChannelsAsRows(ctx, scores));
  ASSIGN_OR_RETURN(loss.labels,
                   ctx.Reshape(labels, {loss.label_shape.elements()}));
  ASSIGN_OR_RETURN(const int reduction,
                   Choice(ctx, "reduction", {"mean", "sum", "none"}));
  loss.reduction = static_cast<LossReduction>(reduction);
  loss.has_ignored = ctx.has_attribute("ignore_index");
  ASSIGN_OR_RETURN(loss.ignored, ctx.Int("ignore_index", 0));
  return loss;
}

// Returns the weight of each row, [rows]: its label's weight, or 0 for an
// ignored label. Returns an invalid value when all weights are 1.
absl::StatusOr<ValueId> RowWeights(NodeContext& ctx, const LossNode& loss,
                                   ValueId ignored, ValueId safe_labels) {
  const DType dtype = ctx.dtype(loss.scores);
  ValueId weights;
  if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(const ValueId of_class, ctx.Input(2));
    RETURN_IF_ERROR(RequireRank(ctx, of_class, 1, 1));
    ASSIGN_OR_RETURN(weights, ctx.Emit(Op::kGather, {of_class, safe_labels},
                                       AxisAttributes{0}));
  }
  if (!ignored.valid()) return weights;
  const ValueId one = weights.valid() ? weights : ctx.Scalar(dtype, 1);
  return ctx.Emit(Op::kWhere, {ignored, ctx.Scalar(dtype, 0), one});
}

// Returns the negated, weighted log-probabilities of the labels, reduced.
absl::StatusOr<ValueId> Likelihood(NodeContext& ctx, const LossNode& loss,
                                   ValueId log_probabilities) {
  ValueId ignored;
  ValueId labels = loss.labels;
  if (loss.has_ignored) {
    ASSIGN_OR_RETURN(ignored, ctx.Binary(Binary::kEqual, labels,
                                         static_cast<double>(loss.ignored)));
    // An ignored label may be no class, and a gather would refuse it.
    const ValueId first = ctx.Scalar(ctx.dtype(labels), 0);
    ASSIGN_OR_RETURN(labels, ctx.Emit(Op::kWhere, {ignored, first, labels}));
  }
  ASSIGN_OR_RETURN(const ValueId weights,
                   RowWeights(ctx, loss, ignored, labels));
  const int64_t rows = ctx.shape(labels)[0];
  ASSIGN_OR_RETURN(const ValueId column, ctx.Reshape(labels, {rows, 1}));
  ASSIGN_OR_RETURN(const ValueId picked,
                   ctx.Emit(Op::kGatherElements, {log_probabilities, column},
                            AxisAttributes{1}));
  ASSIGN_OR_RETURN(const ValueId flat, ctx.Reshape(picked, {rows}));
  ASSIGN_OR_RETURN(ValueId each, ctx.Unary(UnaryFunction::kNegate, flat));
  if (weights.valid()) {
    ASSIGN_OR_RETURN(each, ctx.Binary(Binary::kMultiply, each, weights));
  }
  if (loss.reduction == LossReduction::kNone) {
    return ctx.Reshape(each, loss.label_shape.dims());
  }
  if (loss.reduction == LossReduction::kMean && !weights.valid()) {
    return ctx.Reduce(ReduceFunction::kMean, each, {0}, false);
  }
  ASSIGN_OR_RETURN(const ValueId sum,
                   ctx.Reduce(ReduceFunction::kSum, each, {0}, false));
  if (loss.reduction == LossReduction::kSum) return sum;
  ASSIGN_OR_RETURN(const ValueId total,
                   ctx.Reduce(ReduceFunction::kSum, weights, {0}, false));
  return ctx.Binary(Binary::kDivide, sum, total);
}

absl::Status LowerLikelihood(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const LossNode loss, ReadLoss(ctx));
  return Finish(ctx, Likelihood(ctx, loss, loss.scores));
}

// Sets output 1 to log-probabilities [rows, C] in the shape of the scores.
absl::Status SetLogProbabilities(NodeContext& ctx, ValueId rows) {
  ASSIGN_OR_RETURN(const ValueId scores, ctx.Input(0));
  std::vector<int64_t> dims = Dims(ctx.shape(scores));
  dims.push_back(dims[1]);
  dims.erase(dims.begin() + 1);
  ASSIGN_OR_RETURN(const ValueId moved, ctx.Reshape(rows, dims));
  ASSIGN_OR_RETURN(const ValueId y, MoveFromLast(ctx, moved, 1));
  ctx.Set(1, y);
  return absl::OkStatus();
}

absl::Status LowerCrossEntropy(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const LossNode loss, ReadLoss(ctx));
  // The usual form has an op of its own with a better kernel.
  if (!ctx.wants_output(1) && !ctx.has_input(2) &&
      loss.reduction != LossReduction::kNone) {
    LossAttributes attributes;
    attributes.reduction = loss.reduction == LossReduction::kSum
                               ? Reduction::kSum
                               : Reduction::kMean;
    if (loss.has_ignored) attributes.ignore_label = loss.ignored;
    return Finish(ctx, ctx.Emit(Op::kCrossEntropy, {loss.scores, loss.labels},
                                attributes));
  }
  ASSIGN_OR_RETURN(const ValueId logs,
                   ctx.Emit(Op::kLogSoftmax, {loss.scores}));
  RETURN_IF_ERROR(Finish(ctx, Likelihood(ctx, loss, logs)));
  if (!ctx.wants_output(1)) return absl::OkStatus();
  return SetLogProbabilities(ctx, logs);
}

}  // namespace

absl::Span<const OperatorEntry> LossOperators() {
  static constexpr absl::string_view kFamily = "loss";
  static const OperatorEntry rows[] = {
      {"", "NegativeLogLikelihoodLoss", kFamily, kShapes, LowerLikelihood},
      {"", "SoftmaxCrossEntropyLoss", kFamily, kShapes, LowerCrossEntropy},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
