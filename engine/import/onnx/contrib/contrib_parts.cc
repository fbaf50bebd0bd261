#include "engine/import/onnx/contrib/contrib_parts.h"

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"

namespace gpupool::engine::onnx_import {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

absl::StatusOr<ValueId> PlusPart(NodeContext& ctx, ValueId x, ValueId y,
                                 absl::string_view what) {
  ASSIGN_OR_RETURN(const Shape shape,
                   BroadcastShape(ctx, ctx.shape(x), ctx.shape(y)));
  if (shape != ctx.shape(x)) {
    return ctx.Refuse("the ", what, " ", ctx.shape(y).ToString(),
                      " does not broadcast to ", ctx.shape(x).ToString());
  }
  return Plus(ctx, x, y);
}

absl::StatusOr<ValueId> PlusInput(NodeContext& ctx, ValueId x, int i,
                                  absl::string_view what) {
  if (!ctx.has_input(i)) return x;
  ASSIGN_OR_RETURN(const ValueId y, ctx.Input(i));
  return PlusPart(ctx, x, y, what);
}

absl::Status RequireInt(NodeContext& ctx, absl::string_view name,
                        int64_t value) {
  ASSIGN_OR_RETURN(const int64_t given, ctx.Int(name, value));
  if (given == value) return absl::OkStatus();
  return ctx.Unsupported(name, " = ", given, " is not; only ", value, " is");
}

absl::StatusOr<ValueId> Activate(NodeContext& ctx, ValueId x,
                                 const FusedActivation& activation) {
  const absl::string_view name = activation.name;
  const auto number = [&activation](size_t i, double otherwise) {
    return i < activation.numbers.size() ? activation.numbers[i] : otherwise;
  };
  if (name.empty()) return x;
  if (name == "Relu") return ctx.Emit(Op::kRelu, {x});
  if (name == "Sigmoid") return ctx.Emit(Op::kSigmoid, {x});
  if (name == "Tanh") return ctx.Emit(Op::kTanh, {x});
  if (name == "LeakyRelu") {
    return ctx.Unary(Unary::kLeakyRelu, x, number(0, 0.01));
  }
  if (name == "HardSigmoid") {
    return ctx.Unary(Unary::kHardSigmoid, x, number(0, 0.2), number(1, 0.5));
  }
  if (name == "Clip") {
    if (activation.numbers.size() != 2 || !(number(0, 0) <= number(1, 0))) {
      return ctx.Refuse("the activation Clip needs a minimum and a maximum");
    }
    return ctx.Unary(Unary::kClip, x, number(0, 0), number(1, 0));
  }
  if (name == "Elu") return ctx.Unary(Unary::kElu, x, number(0, 1));
  if (name == "Softplus") return ctx.Unary(Unary::kSoftplus, x);
  if (name == "Softsign") return ctx.Unary(Unary::kSoftsign, x);
  if (name == "ThresholdedRelu") {
    return ctx.Unary(Unary::kThresholdedRelu, x, number(0, 1));
  }
  return ctx.Unsupported("the activation '", name, "' is not");
}

absl::StatusOr<ValueId> ChannelsFirst(NodeContext& ctx, ValueId x) {
  RETURN_IF_ERROR(RequireRank(ctx, x, 3));
  std::vector<int> permutation = AllAxes(ctx.rank(x));
  permutation.pop_back();
  permutation.insert(permutation.begin() + 1, ctx.rank(x) - 1);
  return ctx.Transpose(x, permutation);
}

absl::StatusOr<ValueId> ChannelsLast(NodeContext& ctx, ValueId x) {
  return MoveLast(ctx, x, 1);
}

absl::StatusOr<ValueId> OneNumber(NodeContext& ctx, int i,
                                  absl::string_view what) {
  ASSIGN_OR_RETURN(const ValueId x, ctx.Input(i));
  if (ctx.shape(x).elements() != 1) {
    return ctx.Refuse("the ", what, " must be one number, not ",
                      ctx.shape(x).ToString());
  }
  ASSIGN_OR_RETURN(const ValueId one, ctx.Reshape(x, {}));
  return IsFloating(ctx.dtype(one)) ? absl::StatusOr<ValueId>(one)
                                    : ctx.Cast(one, DType::kFloat32);
}

}  // namespace gpupool::engine::onnx_import
