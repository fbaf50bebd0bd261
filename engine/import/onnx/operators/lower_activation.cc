// Activations, softmax in both axis conventions, dropout.
#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

template <Unary function>
absl::Status LowerActivation(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  return Finish(ctx, ctx.Unary(function, x));
}

template <Op op>
absl::Status LowerWhole(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  // The Relu op takes only floating types.
  if (op == Op::kRelu && !IsFloating(ctx.dtype(x))) {
    return Finish(ctx, ctx.Binary(Binary::kMaximum, x, 0.0));
  }
  return Finish(ctx, ctx.Emit(op, {x}));
}

// Names and defaults of the attributes that become alpha and beta.
struct Parameters {
  Unary function;
  absl::string_view alpha;
  double alpha_default = 0;
  absl::string_view beta;  // "": none
  double beta_default = 0;
};

absl::Status LowerParametric(NodeContext& ctx, const Parameters& parameters) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const double alpha,
                   ctx.Float(parameters.alpha, parameters.alpha_default));
  double beta = 0;
  if (!parameters.beta.empty()) {
    ASSIGN_OR_RETURN(beta, ctx.Float(parameters.beta, parameters.beta_default));
  }
  return Finish(ctx, ctx.Unary(parameters.function, x, alpha, beta));
}

absl::Status LowerLeakyRelu(NodeContext& ctx) {
  return LowerParametric(ctx, {Unary::kLeakyRelu, "alpha", 0.01, "", 0});
}

absl::Status LowerElu(NodeContext& ctx) {
  return LowerParametric(ctx, {Unary::kElu, "alpha", 1, "", 0});
}

// Uses the defaults of opset 6 also for files of opset 1, whose schema rounds
// them.
absl::Status LowerSelu(NodeContext& ctx) {
  return LowerParametric(ctx, {Unary::kSelu, "alpha", 1.67326319217681884765625,
                               "gamma", 1.05070102214813232421875});
}

absl::Status LowerCelu(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const double alpha, ctx.Float("alpha", 1));
  if (alpha == 0) return ctx.Refuse("alpha must not be 0");
  return LowerParametric(ctx, {Unary::kCelu, "alpha", 1, "", 0});
}

absl::Status LowerHardSigmoid(NodeContext& ctx) {
  return LowerParametric(ctx, {Unary::kHardSigmoid, "alpha", 0.2, "beta", 0.5});
}

absl::Status LowerShrink(NodeContext& ctx) {
  return LowerParametric(ctx, {Unary::kShrink, "lambd", 0.5, "bias", 0});
}

absl::Status LowerThresholdedRelu(NodeContext& ctx) {
  return LowerParametric(ctx, {Unary::kThresholdedRelu, "alpha", 1, "", 0});
}

absl::Status LowerGelu(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const int form,
                   Choice(ctx, "approximate", {"none", "tanh"}));
  return Finish(ctx, ctx.Emit(Op::kGelu, {x}, GeluAttributes{form == 1}));
}

absl::Status LowerSwish(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(const double alpha, ctx.Float("alpha", 1));
  if (alpha == 1) return Finish(ctx, ctx.Unary(Unary::kSilu, x));
  ASSIGN_OR_RETURN(const ValueId scaled,
                   ctx.Binary(Binary::kMultiply, x, alpha));
  ASSIGN_OR_RETURN(const ValueId gate, ctx.Emit(Op::kSigmoid, {scaled}));
  return Finish(ctx, ctx.Binary(Binary::kMultiply, x, gate));
}

absl::Status LowerPRelu(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  ASSIGN_OR_RETURN(ValueId slope, ctx.Input(1));
  // Before opset 7 the slope was one number or one per channel.
  if (ctx.opset() < 7 && ctx.rank(slope) == 1 && ctx.rank(x) > 1 &&
      ctx.shape(slope).elements() > 1) {
    ASSIGN_OR_RETURN(slope, PerChannel(ctx, slope, ctx.rank(x)));
  }
  ASSIGN_OR_RETURN(const Shape shape,
                   BroadcastShape(ctx, ctx.shape(x), ctx.shape(slope)));
  if (shape != ctx.shape(x)) {
    return ctx.Refuse("slope ", ctx.shape(slope).ToString(),
                      " does not broadcast to ", ctx.shape(x).ToString());
  }
  ASSIGN_OR_RETURN(const ValueId negative, ctx.Binary(Binary::kLess, x, 0.0));
  ASSIGN_OR_RETURN(const ValueId sloped,
                   ctx.Binary(Binary::kMultiply, x, slope));
  return Finish(ctx, ctx.Emit(Op::kWhere, {negative, sloped, x}));
}

using RowFunction = absl::StatusOr<ValueId> (*)(NodeContext&, ValueId);

// Applies `rows` to the last dimension, after moving the axes there. From opset
// 13 on that is one axis, before it all dimensions from the axis on.
absl::Status OverAxis(NodeContext& ctx, RowFunction rows) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  RETURN_IF_ERROR(RequireFloating(ctx, x));
  const bool one_axis = ctx.opset() >= 13;
  ASSIGN_OR_RETURN(const int64_t at, ctx.Int("axis", one_axis ? -1 : 1));
  const int rank = ctx.rank(x);
  const Shape shape = ctx.shape(x);
  if (!one_axis) {
    // With axis == rank each cell is a row of its own.
    int axis = rank;
    if (at != rank) {
      ASSIGN_OR_RETURN(axis, ctx.Axis(at, rank));
    }
    if (axis == rank - 1) return Finish(ctx, rows(ctx, x));
    const int64_t dims[] = {Product(shape, 0, axis),
                            Product(shape, axis, rank)};
    ASSIGN_OR_RETURN(const ValueId flat, ctx.Reshape(x, dims));
    ASSIGN_OR_RETURN(const ValueId y, rows(ctx, flat));
    return Finish(ctx, ctx.Reshape(y, shape.dims()));
  }
  ASSIGN_OR_RETURN(const int axis, ctx.Axis(at, rank));
  ASSIGN_OR_RETURN(const ValueId moved, MoveLast(ctx, x, axis));
  ASSIGN_OR_RETURN(const ValueId y, rows(ctx, moved));
  return Finish(ctx, MoveFromLast(ctx, y, axis));
}

absl::Status LowerSoftmax(NodeContext& ctx) {
  return OverAxis(
      ctx, [](NodeContext& c, ValueId x) { return c.Emit(Op::kSoftmax, {x}); });
}

absl::Status LowerLogSoftmax(NodeContext& ctx) {
  return OverAxis(ctx, [](NodeContext& c, ValueId x) {
    return c.Emit(Op::kLogSoftmax, {x});
  });
}

// Returns 1 at the first maximum of each row, and 0 elsewhere.
absl::StatusOr<ValueId> HardmaxRows(NodeContext& ctx, ValueId x) {
  const int last = ctx.rank(x) - 1;
  ArgReduceAttributes arg_max;
  arg_max.axis = last;
  arg_max.keep_dims = true;
  ASSIGN_OR_RETURN(const ValueId at, ctx.Emit(Op::kArgReduce, {x}, arg_max));
  ASSIGN_OR_RETURN(const ValueId positions, Positions(ctx, ctx.shape(x)[last]));
  ASSIGN_OR_RETURN(const ValueId hit,
                   ctx.Binary(Binary::kEqual, at, positions));
  return ctx.Cast(hit, ctx.dtype(x));
}

absl::Status LowerHardmax(NodeContext& ctx) {
  return OverAxis(ctx, HardmaxRows);
}

absl::StatusOr<double> DropoutRatio(NodeContext& ctx) {
  double ratio = 0.5;
  if (ctx.opset() < 12) {
    ASSIGN_OR_RETURN(ratio, ctx.Float("ratio", ratio));
  } else if (ctx.has_input(1)) {
    ASSIGN_OR_RETURN(ratio, KnownFloat(ctx, 1, "the ratio"));
  }
  if (!(ratio >= 0 && ratio < 1)) {
    return ctx.Refuse("ratio ", ratio, " must be at least 0 and below 1");
  }
  return ratio;
}

// Drops in training programs only, and ignores training_mode: a model that was
// exported for training is served without dropping.
absl::Status LowerDropout(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(0));
  const Shape shape = ctx.shape(x);
  const DType mask_type = ctx.opset() < 10 ? ctx.dtype(x) : DType::kBool;
  double ratio = 0;
  if (ctx.training()) {
    ASSIGN_OR_RETURN(ratio, DropoutRatio(ctx));
  }
  if (ratio == 0) {
    ctx.Set(0, x);
    if (!ctx.wants_output(1)) return absl::OkStatus();
    ASSIGN_OR_RETURN(const ValueId mask, Filled(ctx, mask_type, shape, 1));
    ctx.Set(1, mask);
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const NodeContext::RandomSource random, ctx.Random());
  DropoutAttributes dropout;
  dropout.probability = ratio;
  dropout.stream = random.stream;
  ASSIGN_OR_RETURN(
      const ValueId y,
      ctx.Emit(Op::kDropout, {x, random.seed, random.step}, dropout));
  ctx.Set(0, y);
  if (!ctx.wants_output(1)) return absl::OkStatus();
  // The same stream drops the same elements, so ones give the mask.
  ASSIGN_OR_RETURN(const ValueId ones, Filled(ctx, ctx.dtype(x), shape, 1));
  ASSIGN_OR_RETURN(
      const ValueId kept,
      ctx.Emit(Op::kDropout, {ones, random.seed, random.step}, dropout));
  ASSIGN_OR_RETURN(const ValueId as_bool, ctx.Cast(kept, DType::kBool));
  ASSIGN_OR_RETURN(const ValueId mask, ctx.Cast(as_bool, mask_type));
  ctx.Set(1, mask);
  return absl::OkStatus();
}

}  // namespace

absl::Span<const OperatorEntry> ActivationOperators() {
  static constexpr absl::string_view kFamily = "activation";
  static const OperatorEntry rows[] = {
      {"", "Celu", kFamily, kShapes, LowerCelu},
      {"", "Dropout", kFamily, kShapes, LowerDropout},
      {"", "Elu", kFamily, kShapes, LowerElu},
      {"", "Gelu", kFamily, kShapes, LowerGelu},
      {"", "HardSigmoid", kFamily, kShapes, LowerHardSigmoid},
      {"", "HardSwish", kFamily, kShapes, LowerActivation<Unary::kHardSwish>},
      {"", "Hardmax", kFamily, kShapes, LowerHardmax},
      {"", "LeakyRelu", kFamily, kShapes, LowerLeakyRelu},
      {"", "LogSoftmax", kFamily, kShapes, LowerLogSoftmax},
      {"", "Mish", kFamily, kShapes, LowerActivation<Unary::kMish>},
      {"", "PRelu", kFamily, kShapes, LowerPRelu},
      {"", "Relu", kFamily, kShapes, LowerWhole<Op::kRelu>},
      {"", "Selu", kFamily, kShapes, LowerSelu},
      {"", "Shrink", kFamily, kShapes, LowerShrink},
      {"", "Sigmoid", kFamily, kShapes, LowerWhole<Op::kSigmoid>},
      {"", "Softmax", kFamily, kShapes, LowerSoftmax},
      {"", "Softplus", kFamily, kShapes, LowerActivation<Unary::kSoftplus>},
      {"", "Softsign", kFamily, kShapes, LowerActivation<Unary::kSoftsign>},
      {"", "Swish", kFamily, kShapes, LowerSwish},
      {"", "Tanh", kFamily, kShapes, LowerWhole<Op::kTanh>},
      {"", "ThresholdedRelu", kFamily, kShapes, LowerThresholdedRelu},
      {"com.microsoft", "Gelu", kFamily, kShapes, LowerGelu},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
