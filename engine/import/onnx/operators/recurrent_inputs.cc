#include "engine/import/onnx/operators/recurrent_inputs.h"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"

namespace gpupool::engine::onnx_import {
namespace {

using Unary = UnaryFunction;
using Binary = BinaryFunction;

struct ActivationRule {
  absl::string_view name;
  bool has_alpha = false;
  double alpha = 0;
  bool has_beta = false;
  double beta = 0;
};

constexpr ActivationRule kActivations[] = {
    {"Relu"},
    {"Tanh"},
    {"Sigmoid"},
    {"Affine", true, 1, true, 0},
    {"LeakyRelu", true, 0.01},
    {"ThresholdedRelu", true, 1},
    {"ScaledTanh", true, 1, true, 1},
    {"HardSigmoid", true, 0.2, true, 0.5},
    {"Elu", true, 1},
    {"Softsign"},
    {"Softplus"},
};

// Reads the activations' parameters. Each list goes, in order, to the functions
// with that parameter. Functions after the list's end get defaults.
absl::StatusOr<std::vector<RecurrentActivation>> ReadActivations(
    const NodeContext& ctx, const std::vector<std::string>& names) {
  ASSIGN_OR_RETURN(const std::vector<double> alphas,
                   ctx.Floats("activation_alpha", {}));
  ASSIGN_OR_RETURN(const std::vector<double> betas,
                   ctx.Floats("activation_beta", {}));
  size_t next_alpha = 0, next_beta = 0;
  std::vector<RecurrentActivation> activations;
  for (const std::string& name : names) {
    const auto rule =
        std::find_if(std::begin(kActivations), std::end(kActivations),
                     [&](const ActivationRule& one) {
                       return absl::EqualsIgnoreCase(one.name, name);
                     });
    if (rule == std::end(kActivations)) {
      return ctx.Refuse("unknown activation '", name, "'");
    }
    RecurrentActivation activation{std::string(rule->name), rule->alpha,
                                   rule->beta};
    if (rule->has_alpha && next_alpha < alphas.size()) {
      activation.alpha = alphas[next_alpha++];
    }
    if (rule->has_beta && next_beta < betas.size()) {
      activation.beta = betas[next_beta++];
    }
    activations.push_back(std::move(activation));
  }
  return activations;
}

absl::StatusOr<std::vector<std::string>> ReadNames(const NodeContext& ctx,
                                                   const RecurrentKind& kind,
                                                   int directions) {
  std::vector<std::string> names;
  if (const onnx::AttributeProto* given = ctx.attribute("activations")) {
    names.assign(given->strings().begin(), given->strings().end());
  }
  const size_t wanted = kind.functions.size() * static_cast<size_t>(directions);
  // Each direction has the same default functions.
  if (names.empty()) {
    while (names.size() < wanted) {
      names.insert(names.end(), kind.functions.begin(), kind.functions.end());
    }
  }
  if (names.size() != wanted) {
    return ctx.Refuse("names ", names.size(), " activations instead of ",
                      wanted);
  }
  return names;
}

absl::Status ReadDirection(const NodeContext& ctx, RecurrentInputs& inputs) {
  ASSIGN_OR_RETURN(
      const int direction,
      Choice(ctx, "direction", {"forward", "reverse", "bidirectional"}));
  inputs.directions = direction == 2 ? 2 : 1;
  inputs.first_backwards = direction == 1;
  return absl::OkStatus();
}

absl::Status CheckShape(const NodeContext& ctx, ValueId value,
                        absl::string_view what,
                        const std::vector<int64_t>& dims) {
  ASSIGN_OR_RETURN(const Shape wanted, MakeShape(ctx, dims));
  if (ctx.shape(value) == wanted) return absl::OkStatus();
  return ctx.Refuse(what, " is ", ctx.shape(value).ToString(), " but must be ",
                    wanted.ToString());
}

absl::Status ReadSizes(NodeContext& ctx, const RecurrentKind& kind,
                       RecurrentInputs& inputs) {
  ASSIGN_OR_RETURN(inputs.x, ctx.Input(0));
  RETURN_IF_ERROR(RequireRank(ctx, inputs.x, 3, 3));
  RETURN_IF_ERROR(RequireFloating(ctx, inputs.x));
  if (inputs.batch_first) {
    ASSIGN_OR_RETURN(inputs.x, ctx.Transpose(inputs.x, {1, 0, 2}));
  }
  const Shape x = ctx.shape(inputs.x);
  inputs.steps = x[0];
  inputs.batch = x[1];
  inputs.inputs = x[2];
  ASSIGN_OR_RETURN(const ValueId w, ctx.Input(1));
  ASSIGN_OR_RETURN(const ValueId r, ctx.Input(2));
  RETURN_IF_ERROR(RequireRank(ctx, r, 3, 3));
  inputs.hidden = ctx.shape(r)[2];
  const int64_t rows = kind.gates * inputs.hidden;
  RETURN_IF_ERROR(
      CheckShape(ctx, w, "W", {inputs.directions, rows, inputs.inputs}));
  RETURN_IF_ERROR(
      CheckShape(ctx, r, "R", {inputs.directions, rows, inputs.hidden}));
  if (ctx.has_input(3)) {
    ASSIGN_OR_RETURN(const ValueId bias, ctx.Input(3));
    RETURN_IF_ERROR(CheckShape(ctx, bias, "B", {inputs.directions, 2 * rows}));
  }
  ASSIGN_OR_RETURN(const int64_t hidden, ctx.Int("hidden_size", inputs.hidden));
  if (hidden != inputs.hidden) {
    return ctx.Refuse("hidden_size is ", hidden, " but R has ", inputs.hidden);
  }
  // Each step becomes nodes of its own, so the limit bounds the graph.
  if (inputs.steps > kMaxUnrolledSteps / inputs.directions) {
    return ctx.Refuse(inputs.steps, " steps in ", inputs.directions,
                      " directions are over the limit of ", kMaxUnrolledSteps);
  }
  return absl::OkStatus();
}

absl::Status ReadLengths(NodeContext& ctx, RecurrentInputs& inputs) {
  if (!ctx.has_input(4)) return absl::OkStatus();
  if (ctx.IsKnown(4)) {
    ASSIGN_OR_RETURN(const std::vector<int64_t> lengths,
                     KnownInts(ctx, 4, "the sequence lengths"));
    // Lengths of all steps need no masks.
    const auto whole = [&](int64_t length) { return length == inputs.steps; };
    if (std::all_of(lengths.begin(), lengths.end(), whole)) {
      return absl::OkStatus();
    }
  }
  ASSIGN_OR_RETURN(const ValueId given, ctx.Input(4));
  RETURN_IF_ERROR(CheckShape(ctx, given, "sequence_lens", {inputs.batch}));
  ASSIGN_OR_RETURN(const ValueId lengths, ctx.Cast(given, DType::kInt64));
  ASSIGN_OR_RETURN(inputs.lengths, ctx.Reshape(lengths, {inputs.batch, 1}));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ValueId> Activate(NodeContext& ctx,
                                 const RecurrentActivation& activation,
                                 double clip, ValueId x) {
  // 0 stands for no clipping. ONNX clips before the activation.
  if (clip > 0) {
    ASSIGN_OR_RETURN(x, ctx.Unary(Unary::kClip, x, -clip, clip));
  }
  const std::string& name = activation.name;
  const double alpha = activation.alpha;
  const double beta = activation.beta;
  if (name == "Relu") return ctx.Emit(Op::kRelu, {x});
  if (name == "Tanh") return ctx.Emit(Op::kTanh, {x});
  if (name == "Sigmoid") return ctx.Emit(Op::kSigmoid, {x});
  if (name == "LeakyRelu") return ctx.Unary(Unary::kLeakyRelu, x, alpha);
  if (name == "ThresholdedRelu") {
    return ctx.Unary(Unary::kThresholdedRelu, x, alpha);
  }
  if (name == "HardSigmoid") {
    return ctx.Unary(Unary::kHardSigmoid, x, alpha, beta);
  }
  if (name == "Elu") return ctx.Unary(Unary::kElu, x, alpha);
  if (name == "Softsign") return ctx.Unary(Unary::kSoftsign, x);
  if (name == "Softplus") return ctx.Unary(Unary::kSoftplus, x);
  if (name == "Affine") {
    ASSIGN_OR_RETURN(const ValueId scaled,
                     ctx.Binary(Binary::kMultiply, x, alpha));
    return ctx.Binary(Binary::kAdd, scaled, beta);
  }
  // The remaining function is ScaledTanh.
  ASSIGN_OR_RETURN(const ValueId scaled,
                   ctx.Binary(Binary::kMultiply, x, beta));
  ASSIGN_OR_RETURN(const ValueId tanh, ctx.Emit(Op::kTanh, {scaled}));
  return ctx.Binary(Binary::kMultiply, tanh, alpha);
}

absl::StatusOr<RecurrentInputs> ReadRecurrent(NodeContext& ctx,
                                              const RecurrentKind& kind) {
  RecurrentInputs inputs;
  RETURN_IF_ERROR(ReadDirection(ctx, inputs));
  ASSIGN_OR_RETURN(const int64_t layout, ctx.Int("layout", 0));
  inputs.batch_first = layout != 0;
  RETURN_IF_ERROR(ReadSizes(ctx, kind, inputs));
  RETURN_IF_ERROR(ReadLengths(ctx, inputs));
  ASSIGN_OR_RETURN(inputs.clip, ctx.Float("clip", 0));
  if (!(inputs.clip >= 0) || std::isinf(inputs.clip)) {
    return ctx.Refuse("clip ", inputs.clip, " must be at least 0");
  }
  ASSIGN_OR_RETURN(const std::vector<std::string> names,
                   ReadNames(ctx, kind, inputs.directions));
  ASSIGN_OR_RETURN(const std::vector<RecurrentActivation> all,
                   ReadActivations(ctx, names));
  const auto each = static_cast<std::ptrdiff_t>(kind.functions.size());
  for (auto first = all.begin(); first != all.end(); first += each) {
    inputs.activations.emplace_back(first, first + each);
  }
  return inputs;
}

absl::StatusOr<ValueId> OfDirection(NodeContext& ctx, int input,
                                    int direction) {
  ASSIGN_OR_RETURN(const ValueId all, ctx.Input(input));
  return TakeRow(ctx, all, 0, direction);
}

absl::StatusOr<ValueId> InitialState(NodeContext& ctx,
                                     const RecurrentInputs& inputs, int input,
                                     int direction) {
  if (!ctx.has_input(input)) {
    ASSIGN_OR_RETURN(const Shape shape,
                     MakeShape(ctx, {inputs.batch, inputs.hidden}));
    return Filled(ctx, ctx.dtype(inputs.x), shape, 0);
  }
  ASSIGN_OR_RETURN(const ValueId all, ctx.Input(input));
  // With layout 1, states are [batch, directions, hidden].
  const int axis = inputs.batch_first ? 1 : 0;
  std::vector<int64_t> dims{inputs.batch, inputs.hidden};
  dims.insert(dims.begin() + axis, inputs.directions);
  RETURN_IF_ERROR(CheckShape(ctx, all, "an initial state", dims));
  return TakeRow(ctx, all, axis, direction);
}

absl::StatusOr<Unrolled> Unroll(NodeContext& ctx, const RecurrentInputs& inputs,
                                DirectionSteps steps) {
  const bool backwards = inputs.first_backwards || steps.direction == 1;
  Unrolled run;
  run.outputs.resize(static_cast<size_t>(inputs.steps));
  States states = std::move(steps.initial);
  const ValueId zero = ctx.Scalar(ctx.dtype(inputs.x), 0);
  for (int64_t i = 0; i < inputs.steps; ++i) {
    // Outputs stay at their step in either direction (ONNX RNN).
    const int64_t t = backwards ? inputs.steps - 1 - i : i;
    ASSIGN_OR_RETURN(States next, steps.cell(t, states));
    ValueId output = next[0];
    if (inputs.lengths.valid()) {
      // After its end a sequence keeps its states and outputs 0.
      ASSIGN_OR_RETURN(
          const ValueId inside,
          ctx.Binary(Binary::kGreater, inputs.lengths, static_cast<double>(t)));
      for (size_t k = 0; k < next.size(); ++k) {
        ASSIGN_OR_RETURN(next[k],
                         ctx.Emit(Op::kWhere, {inside, next[k], states[k]}));
      }
      ASSIGN_OR_RETURN(output, ctx.Emit(Op::kWhere, {inside, output, zero}));
    }
    run.outputs[static_cast<size_t>(t)] = output;
    states = std::move(next);
  }
  run.last = std::move(states);
  return run;
}

absl::Status SetRecurrentOutputs(NodeContext& ctx,
                                 const RecurrentInputs& inputs,
                                 const std::vector<Unrolled>& directions) {
  const int64_t one[] = {1, inputs.batch, inputs.hidden};
  const int64_t one_step[] = {1, 1, inputs.batch, inputs.hidden};
  if (ctx.wants_output(0)) {
    ValueIds runs;
    for (const Unrolled& run : directions) {
      ValueIds steps;
      for (ValueId output : run.outputs) {
        ASSIGN_OR_RETURN(const ValueId step, ctx.Reshape(output, one_step));
        steps.push_back(step);
      }
      ASSIGN_OR_RETURN(const ValueId all, Concat(ctx, steps, 0));
      runs.push_back(all);
    }
    ASSIGN_OR_RETURN(ValueId y, Concat(ctx, runs, 1));
    if (inputs.batch_first) {
      // [steps, directions, batch, hidden] becomes [batch, steps, directions,
      // hidden].
      ASSIGN_OR_RETURN(y, ctx.Transpose(y, {2, 0, 1, 3}));
    }
    ctx.Set(0, y);
  }
  for (size_t k = 0; k < directions[0].last.size(); ++k) {
    const int output = static_cast<int>(k) + 1;
    if (!ctx.wants_output(output)) continue;
    ValueIds last;
    for (const Unrolled& run : directions) {
      ASSIGN_OR_RETURN(const ValueId state, ctx.Reshape(run.last[k], one));
      last.push_back(state);
    }
    ASSIGN_OR_RETURN(ValueId all, Concat(ctx, last, 0));
    if (inputs.batch_first) {
      ASSIGN_OR_RETURN(all, ctx.Transpose(all, {1, 0, 2}));
    }
    ctx.Set(output, all);
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine::onnx_import
