// Normalisations over a batch, a layer, an instance, groups or channels.
#include <cmath>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/norms.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

struct BatchNorm {
  ValueId x, gamma, beta, mean, variance;
  DType dtype = DType::kFloat32;  // of x in the file
  double epsilon = 1e-5;
  double old_weight = 0.9;  // for the running statistics
  bool training_mode = false;
};

// Reads the operands. x is converted to the type of the parameters for the
// computation.
absl::StatusOr<BatchNorm> ReadBatchNorm(NodeContext& ctx) {
  BatchNorm norm;
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, x, 2));
  norm.dtype = ctx.dtype(x);
  ASSIGN_OR_RETURN(norm.gamma, ctx.Input(1));
  ASSIGN_OR_RETURN(norm.beta, ctx.Input(2));
  ASSIGN_OR_RETURN(norm.mean, ctx.StateInput(3));
  ASSIGN_OR_RETURN(norm.variance, ctx.StateInput(4));
  ASSIGN_OR_RETURN(norm.x, ctx.Cast(x, ctx.dtype(norm.gamma)));
  ASSIGN_OR_RETURN(norm.epsilon, ctx.Float("epsilon", 1e-5));
  ASSIGN_OR_RETURN(norm.old_weight, ctx.Float("momentum", 0.9));
  ASSIGN_OR_RETURN(const int64_t training, ctx.Int("training_mode", 0));
  ASSIGN_OR_RETURN(const int64_t spatial, ctx.Int("spatial", 1));
  norm.training_mode = training != 0;
  if (ctx.opset() < 9 && spatial == 0) {
    return ctx.Unsupported("spatial = 0 is not");
  }
  if (!(norm.epsilon >= 0) || !(norm.old_weight >= 0 && norm.old_weight <= 1)) {
    return ctx.Refuse("epsilon ", norm.epsilon, " must be at least 0 and ",
                      "momentum ", norm.old_weight, " from 0 to 1");
  }
  return norm;
}

// Returns before * weight + now * (1 - weight).
absl::StatusOr<ValueId> Blend(NodeContext& ctx, ValueId before, ValueId now,
                              double weight) {
  ASSIGN_OR_RETURN(const ValueId kept,
                   ctx.Binary(Binary::kMultiply, before, weight));
  ASSIGN_OR_RETURN(const ValueId added,
                   ctx.Binary(Binary::kMultiply, now, 1 - weight));
  return Plus(ctx, kept, added);
}

// Sets the running statistics of training as ONNX defines them, with the biased
// variance.
absl::Status SetOnnxStatistics(NodeContext& ctx, const BatchNorm& norm,
                               const ValueIds& outputs) {
  ASSIGN_OR_RETURN(const ValueId mean,
                   Blend(ctx, norm.mean, outputs[1], norm.old_weight));
  ASSIGN_OR_RETURN(const ValueId variance,
                   Blend(ctx, norm.variance, outputs[2], norm.old_weight));
  ctx.Set(1, mean);
  ctx.Set(2, variance);
  return absl::OkStatus();
}

// Updates running statistics that the model owns as PyTorch does, with the
// unbiased variance, even if the file says otherwise.
absl::Status UpdateStatistics(NodeContext& ctx, const BatchNorm& norm,
                              const ValueIds& outputs) {
  const Shape shape = ctx.shape(norm.x);
  BatchNormUpdateAttributes update;
  update.momentum = 1 - norm.old_weight;
  update.count = shape.elements() / shape[1];
  ASSIGN_OR_RETURN(
      const ValueIds running,
      ctx.EmitAll(Op::kBatchNormUpdate,
                  {norm.mean, norm.variance, outputs[1], outputs[2]}, update));
  RETURN_IF_ERROR(ctx.Update(running[0], norm.mean));
  RETURN_IF_ERROR(ctx.Update(running[1], norm.variance));
  ctx.Set(1, running[0]);
  ctx.Set(2, running[1]);
  return absl::OkStatus();
}

absl::Status TrainBatchNorm(NodeContext& ctx, const BatchNorm& norm,
                            bool owned) {
  NormAttributes attributes;
  attributes.epsilon = norm.epsilon;
  ASSIGN_OR_RETURN(const ValueIds outputs,
                   ctx.EmitAll(Op::kBatchNormTraining,
                               {norm.x, norm.gamma, norm.beta}, attributes));
  RETURN_IF_ERROR(Finish(ctx, ctx.Cast(outputs[0], norm.dtype)));
  return owned ? UpdateStatistics(ctx, norm, outputs)
               : SetOnnxStatistics(ctx, norm, outputs);
}

absl::Status LowerBatchNorm(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const BatchNorm norm, ReadBatchNorm(ctx));
  const bool owned = ctx.value(norm.mean).kind == ValueKind::kPersistent &&
                     ctx.value(norm.variance).kind == ValueKind::kPersistent;
  // Statistics that are inputs of the model were not learned here, so the
  // file's own mode applies.
  if (ctx.training() ? owned || norm.training_mode
                     : norm.training_mode && !owned) {
    return TrainBatchNorm(ctx, norm, owned);
  }
  NormAttributes attributes;
  attributes.epsilon = norm.epsilon;
  ASSIGN_OR_RETURN(const ValueId y, ctx.Emit(Op::kBatchNormInference,
                                             {norm.x, norm.gamma, norm.beta,
                                              norm.mean, norm.variance},
                                             attributes));
  ctx.Set(1, norm.mean);
  ctx.Set(2, norm.variance);
  return Finish(ctx, ctx.Cast(y, norm.dtype));
}

struct RowSizes {
  int64_t count = 1;
  int64_t size = 1;
};

// Returns (x - mean) / sqrt(variance + epsilon) of each row, as [count, size].
absl::StatusOr<ValueId> NormaliseRows(NodeContext& ctx, ValueId x,
                                      const RowSizes& rows, double epsilon) {
  const int64_t dims[] = {rows.count, rows.size};
  const int64_t last[] = {rows.size};
  ASSIGN_OR_RETURN(const Shape per_cell, MakeShape(ctx, last));
  ASSIGN_OR_RETURN(const ValueId flat, ctx.Reshape(x, dims));
  ASSIGN_OR_RETURN(const ValueId ones, Filled(ctx, ctx.dtype(x), per_cell, 1));
  ASSIGN_OR_RETURN(const ValueId zeros, Filled(ctx, ctx.dtype(x), per_cell, 0));
  NormAttributes norm;
  norm.epsilon = epsilon;
  norm.with_statistics = ctx.training();  // for its gradient
  ASSIGN_OR_RETURN(const ValueIds outputs,
                   ctx.EmitAll(Op::kLayerNorm, {flat, ones, zeros}, norm));
  return outputs[0];
}

// Returns x * scale + bias, with one number of each per entry of dimension 1.
absl::StatusOr<ValueId> ScaleChannels(NodeContext& ctx, ValueId x,
                                      ValueId scale, ValueId bias) {
  for (ValueId one : {scale, bias}) {
    if (ctx.shape(one).elements() != ctx.shape(x)[1]) {
      return ctx.Refuse("scale and bias need ", ctx.shape(x)[1],
                        " numbers, not ", ctx.shape(one).ToString());
    }
  }
  ASSIGN_OR_RETURN(const ValueId gamma, PerChannel(ctx, scale, ctx.rank(x)));
  ASSIGN_OR_RETURN(const ValueId beta, PerChannel(ctx, bias, ctx.rank(x)));
  ASSIGN_OR_RETURN(const ValueId scaled,
                   ctx.Binary(Binary::kMultiply, x, gamma));
  return ctx.Binary(Binary::kAdd, scaled, beta);
}

absl::Status LowerInstanceNorm(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, x, 3));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  ASSIGN_OR_RETURN(const ValueId scale, ctx.Input(1));
  ASSIGN_OR_RETURN(const ValueId bias, ctx.Input(2));
  ASSIGN_OR_RETURN(const double epsilon, ctx.Float("epsilon", 1e-5));
  const Shape shape = ctx.shape(x);
  const RowSizes rows{shape[0] * shape[1], Product(shape, 2, shape.rank())};
  ASSIGN_OR_RETURN(const ValueId flat, NormaliseRows(ctx, x, rows, epsilon));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Reshape(flat, shape.dims()));
  return Finish(ctx, ScaleChannels(ctx, y, scale, bias));
}

// Before opset 21 scale and bias are per group, from then on per channel.
absl::Status LowerGroupNorm(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, x, 2));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  ASSIGN_OR_RETURN(const ValueId scale, ctx.Input(1));
  ASSIGN_OR_RETURN(const ValueId bias, ctx.Input(2));
  ASSIGN_OR_RETURN(const double epsilon, ctx.Float("epsilon", 1e-5));
  ASSIGN_OR_RETURN(const int64_t groups, ctx.Int("num_groups", 0));
  const Shape shape = ctx.shape(x);
  if (groups < 1 || shape[1] % groups != 0) {
    return ctx.Refuse("num_groups ", groups, " must divide ", shape[1],
                      " channels");
  }
  if (shape.elements() == 0) return Finish(ctx, x);
  const int64_t count = shape[0] * groups;
  const RowSizes rows{count, shape.elements() / count};
  ASSIGN_OR_RETURN(const ValueId flat, NormaliseRows(ctx, x, rows, epsilon));
  const int64_t grouped[] = {shape[0], groups, rows.size};
  const bool per_group = ctx.opset() < 21;
  ASSIGN_OR_RETURN(const ValueId y, per_group
                                        ? ctx.Reshape(flat, grouped)
                                        : ctx.Reshape(flat, shape.dims()));
  ASSIGN_OR_RETURN(const ValueId scaled, ScaleChannels(ctx, y, scale, bias));
  return Finish(ctx, ctx.Reshape(scaled, shape.dims()));
}

// Returns a scale or bias with one number per normalised cell.
absl::StatusOr<ValueId> PerCell(NodeContext& ctx, ValueId x,
                                const Shape& normalised) {
  ASSIGN_OR_RETURN(const Shape shape,
                   BroadcastShape(ctx, ctx.shape(x), normalised));
  if (shape != normalised) {
    return ctx.Refuse("scale and bias ", ctx.shape(x).ToString(),
                      " do not broadcast to ", normalised.ToString());
  }
  ASSIGN_OR_RETURN(const ValueId full, ctx.BroadcastTo(x, shape));
  const int64_t flat[] = {shape.elements()};
  return ctx.Reshape(full, flat);
}

struct LayerAxes {
  int axis = 0;
  Shape normalised;              // dimensions from the axis on
  std::vector<int64_t> reduced;  // all dimensions, with 1 from the axis on
};

absl::StatusOr<LayerAxes> ReadLayerAxes(const NodeContext& ctx, ValueId x) {
  LayerAxes axes;
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", -1));
  ASSIGN_OR_RETURN(axes.axis, ctx.Axis(at, ctx.rank(x)));
  const Shape shape = ctx.shape(x);
  const auto first = static_cast<size_t>(axes.axis);
  ASSIGN_OR_RETURN(axes.normalised,
                   MakeShape(ctx, shape.dims().subspan(first)));
  axes.reduced = Dims(shape);
  for (size_t i = first; i < axes.reduced.size(); ++i) axes.reduced[i] = 1;
  return axes;
}

absl::Status LowerLayerNorm(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  ASSIGN_OR_RETURN(const LayerAxes axes, ReadLayerAxes(ctx, x));
  const Shape shape = ctx.shape(x);
  ASSIGN_OR_RETURN(const ValueId scale, ctx.Input(1));
  ASSIGN_OR_RETURN(const ValueId gamma, PerCell(ctx, scale, axes.normalised));
  ValueId beta;
  if (ctx.has_input(2)) {
    ASSIGN_OR_RETURN(const ValueId bias, ctx.Input(2));
    ASSIGN_OR_RETURN(beta, PerCell(ctx, bias, axes.normalised));
  } else {
    ASSIGN_OR_RETURN(beta, Filled(ctx, ctx.dtype(x), ctx.shape(gamma), 0));
  }
  NormAttributes norm;
  ASSIGN_OR_RETURN(norm.epsilon, ctx.Float("epsilon", 1e-5));
  const bool wanted = ctx.wants_output(1) || ctx.wants_output(2);
  if (shape.elements() == 0 && !wanted) return Finish(ctx, x);
  norm.with_statistics = wanted || ctx.training();  // also for its gradient
  std::vector<int64_t> dims = Dims(shape);
  dims.resize(static_cast<size_t>(axes.axis));
  dims.push_back(axes.normalised.elements());
  ASSIGN_OR_RETURN(const ValueId rows, ctx.Reshape(x, dims));
  ASSIGN_OR_RETURN(const ValueIds outputs,
                   ctx.EmitAll(Op::kLayerNorm, {rows, gamma, beta}, norm));
  RETURN_IF_ERROR(Finish(ctx, ctx.Reshape(outputs[0], shape.dims())));
  if (!wanted) return absl::OkStatus();
  ASSIGN_OR_RETURN(const ValueId mean, ctx.Reshape(outputs[1], axes.reduced));
  ASSIGN_OR_RETURN(const ValueId variance,
                   ctx.Reshape(outputs[2], axes.reduced));
  ASSIGN_OR_RETURN(const ValueId shifted,
                   ctx.Binary(Binary::kAdd, variance, norm.epsilon));
  ASSIGN_OR_RETURN(const ValueId deviation, ctx.Unary(Unary::kSqrt, shifted));
  ASSIGN_OR_RETURN(const ValueId inverse,
                   ctx.Unary(Unary::kReciprocal, deviation));
  ctx.Set(1, mean);
  ctx.Set(2, inverse);
  return absl::OkStatus();
}

// SimplifiedLayerNormalization has the inverse of the root as a second output.
absl::Status LowerRmsNorm(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  ASSIGN_OR_RETURN(const ValueId scale, ctx.Input(1));
  ASSIGN_OR_RETURN(const LayerAxes axes, ReadLayerAxes(ctx, x));
  ASSIGN_OR_RETURN(const double epsilon, ctx.Float("epsilon", 1e-5));
  ASSIGN_OR_RETURN(
      const RmsNorm norm,
      RmsNormOf(ctx, x, scale, {.axis = axes.axis, .epsilon = epsilon}));
  if (ctx.wants_output(1)) {
    ASSIGN_OR_RETURN(const ValueId inverse,
                     ctx.Unary(Unary::kReciprocal, norm.root));
    ctx.Set(1, inverse);
  }
  return Finish(ctx, norm.y);
}

absl::Status LowerLrn(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  LrnAttributes lrn;
  ASSIGN_OR_RETURN(lrn.alpha, ctx.Float("alpha", 1e-4));
  ASSIGN_OR_RETURN(lrn.beta, ctx.Float("beta", 0.75));
  ASSIGN_OR_RETURN(lrn.bias, ctx.Float("bias", 1));
  ASSIGN_OR_RETURN(lrn.size, ctx.Int("size", 0));
  return Finish(ctx, ctx.Emit(Op::kLrn, {x}, lrn));
}

absl::Status LowerMeanVariance(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  ASSIGN_OR_RETURN(const std::vector<int64_t> named,
                   ctx.Ints("axes", {0, 2, 3}));
  ASSIGN_OR_RETURN(const std::vector<int> axes,
                   NormalAxes(ctx, named, ctx.rank(x)));
  if (axes.empty()) return ctx.Refuse("needs at least one axis");
  ASSIGN_OR_RETURN(const ValueId mean,
                   ctx.Reduce(ReduceFunction::kMean, x, axes, true));
  ASSIGN_OR_RETURN(const ValueId centred,
                   ctx.Binary(Binary::kSubtract, x, mean));
  ASSIGN_OR_RETURN(const ValueId square,
                   ctx.Binary(Binary::kMultiply, centred, centred));
  ASSIGN_OR_RETURN(const ValueId variance,
                   ctx.Reduce(ReduceFunction::kMean, square, axes, true));
  ASSIGN_OR_RETURN(const ValueId deviation, ctx.Unary(Unary::kSqrt, variance));
  // The specification adds 1e-9 to the deviation, not to the variance.
  ASSIGN_OR_RETURN(const ValueId shifted,
                   ctx.Binary(Binary::kAdd, deviation, 1e-9));
  return Finish(ctx, ctx.Binary(Binary::kDivide, centred, shifted));
}

absl::Status LowerLpNorm(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", -1));
  ASSIGN_OR_RETURN(const int64_t p, ctx.Int("p", 2));
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, ctx.rank(x)));
  if (p != 1 && p != 2) return ctx.Refuse("p ", p, " must be 1 or 2");
  ASSIGN_OR_RETURN(
      const ValueId size,
      p == 1 ? ctx.Unary(Unary::kAbs, x) : ctx.Binary(Binary::kMultiply, x, x));
  ASSIGN_OR_RETURN(ValueId norm,
                   ctx.Reduce(ReduceFunction::kSum, size, {axis}, true));
  if (p == 2) {
    ASSIGN_OR_RETURN(norm, ctx.Unary(Unary::kSqrt, norm));
  }
  // A vector of zeros stays one.
  ASSIGN_OR_RETURN(const ValueId empty, ctx.Binary(Binary::kEqual, norm, 0.0));
  ASSIGN_OR_RETURN(
      norm,
      ctx.Emit(Op::kWhere, {empty, ctx.Scalar(ctx.dtype(norm), 1), norm}));
  return Finish(ctx, ctx.Binary(Binary::kDivide, x, norm));
}

}  // namespace

absl::StatusOr<RmsNorm> RmsNormOf(NodeContext& ctx, ValueId x, ValueId scale,
                                  const RmsNormOptions& options) {
  std::vector<int> normalised = AllAxes(ctx.rank(x));
  normalised.erase(normalised.begin(), normalised.begin() + options.axis);
  RmsNorm norm;
  ASSIGN_OR_RETURN(const ValueId square, ctx.Binary(Binary::kMultiply, x, x));
  ASSIGN_OR_RETURN(const ValueId mean,
                   ctx.Reduce(ReduceFunction::kMean, square, normalised, true));
  ASSIGN_OR_RETURN(const ValueId shifted,
                   ctx.Binary(Binary::kAdd, mean, options.epsilon));
  ASSIGN_OR_RETURN(norm.root, ctx.Unary(Unary::kSqrt, shifted));
  ASSIGN_OR_RETURN(const ValueId y, ctx.Binary(Binary::kDivide, x, norm.root));
  ASSIGN_OR_RETURN(norm.y, ctx.Binary(Binary::kMultiply, y, scale));
  return norm;
}

absl::Span<const OperatorEntry> NormOperators() {
  static constexpr absl::string_view kFamily = "normalisation";
  static const OperatorEntry rows[] = {
      {"", "BatchNormalization", kFamily, kShapes, LowerBatchNorm},
      {"", "GroupNormalization", kFamily, kShapes, LowerGroupNorm},
      {"", "InstanceNormalization", kFamily, kShapes, LowerInstanceNorm},
      {"", "LRN", kFamily, kShapes, LowerLrn},
      {"", "LayerNormalization", kFamily, kShapes, LowerLayerNorm},
      {"", "LpNormalization", kFamily, kShapes, LowerLpNorm},
      {"", "MeanVarianceNormalization", kFamily, kShapes, LowerMeanVariance},
      {"", "RMSNormalization", kFamily, kShapes, LowerRmsNorm},
      {"", "SimplifiedLayerNormalization", kFamily, kShapes, LowerRmsNorm},
      {"com.microsoft", "SimplifiedLayerNormalization", kFamily, kShapes,
       LowerRmsNorm},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
