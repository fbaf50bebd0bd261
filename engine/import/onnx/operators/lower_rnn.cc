// Lowers LSTM, GRU and RNN by unrolling their steps.
//
// One product multiplies the inputs of all steps with W. Each step then
// multiplies its hidden state with R. The formulas are those of the operators'
// specification, and gates have its order: i o f c for LSTM, z r h for GRU.
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/import/onnx/graph/lowering_parts.h"
#include "engine/import/onnx/graph/lowerings.h"
#include "engine/import/onnx/operators/recurrent_inputs.h"

namespace gpupool::engine::onnx_import {
namespace {

using Binary = BinaryFunction;

// The weights of one direction, and the product of all inputs with W. The
// product includes both biases unless they are split.
struct Direction {
  ValueId from_inputs;              // [steps, batch, gates * hidden]
  ValueId r;                        // [gates * hidden, hidden]
  ValueId input_bias, hidden_bias;  // [gates * hidden] or invalid
};

// Return `size` rows or columns of x, from `start` on.
absl::StatusOr<ValueId> Rows(NodeContext& ctx, ValueId x, int64_t start,
                             int64_t size) {
  return SliceAxis(ctx, x, {.axis = 0, .start = start, .size = size});
}

absl::StatusOr<ValueId> Columns(NodeContext& ctx, ValueId x, int64_t start,
                                int64_t size) {
  return SliceAxis(ctx, x, {.axis = 1, .start = start, .size = size});
}

// Values that are added to a product. Invalid ones are left out.
struct Addends {
  ValueId bias, residual;
};

// Adds x w^T + bias + residual.
absl::StatusOr<ValueId> Linear(NodeContext& ctx, ValueId x, ValueId w,
                               const Addends& addends) {
  const auto [bias, residual] = addends;
  MatMulAttributes product;
  product.transpose_b = true;
  ValueIds inputs{x, w};
  if (bias.valid()) {
    product.epilogue.bias = true;
    inputs.push_back(bias);
  }
  if (residual.valid()) {
    product.epilogue.residual = true;
    inputs.push_back(residual);
  }
  return ctx.Emit(Op::kMatMul, inputs, product);
}

// Reads the weights of a direction. With `split_bias`, from_inputs includes
// only the bias of the inputs.
absl::StatusOr<Direction> ReadWeights(NodeContext& ctx,
                                      const RecurrentInputs& inputs,
                                      int direction, bool split_bias) {
  Direction weights;
  ASSIGN_OR_RETURN(const ValueId w, OfDirection(ctx, 1, direction));
  ASSIGN_OR_RETURN(weights.r, OfDirection(ctx, 2, direction));
  const int64_t rows = ctx.shape(w)[0];
  ValueId bias;
  if (ctx.has_input(3)) {
    ASSIGN_OR_RETURN(const ValueId both, OfDirection(ctx, 3, direction));
    ASSIGN_OR_RETURN(weights.input_bias, Rows(ctx, both, 0, rows));
    ASSIGN_OR_RETURN(weights.hidden_bias, Rows(ctx, both, rows, rows));
    bias = weights.input_bias;
    if (!split_bias) {
      ASSIGN_OR_RETURN(bias, Plus(ctx, bias, weights.hidden_bias));
    }
  }
  ASSIGN_OR_RETURN(
      const ValueId flat,
      ctx.Reshape(inputs.x, {inputs.steps * inputs.batch, inputs.inputs}));
  ASSIGN_OR_RETURN(const ValueId y, Linear(ctx, flat, w, {.bias = bias}));
  ASSIGN_OR_RETURN(weights.from_inputs,
                   ctx.Reshape(y, {inputs.steps, inputs.batch, rows}));
  return weights;
}

absl::Status LowerRnn(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const RecurrentInputs inputs,
                   ReadRecurrent(ctx, {1, {"Tanh"}}));
  std::vector<Unrolled> runs;
  for (int d = 0; d < inputs.directions; ++d) {
    ASSIGN_OR_RETURN(const Direction weights,
                     ReadWeights(ctx, inputs, d, false));
    const auto& f = inputs.activations[static_cast<size_t>(d)];
    const Cell cell = [&](int64_t t,
                          const States& states) -> absl::StatusOr<States> {
      ASSIGN_OR_RETURN(const ValueId x,
                       TakeRow(ctx, weights.from_inputs, 0, t));
      ASSIGN_OR_RETURN(const ValueId sum,
                       Linear(ctx, states[0], weights.r, {.residual = x}));
      ASSIGN_OR_RETURN(const ValueId h, Activate(ctx, f[0], inputs.clip, sum));
      return States{h};
    };
    ASSIGN_OR_RETURN(const ValueId initial, InitialState(ctx, inputs, 5, d));
    ASSIGN_OR_RETURN(
        Unrolled run,
        Unroll(ctx, inputs,
               {.direction = d, .initial = {initial}, .cell = cell}));
    runs.push_back(std::move(run));
  }
  return SetRecurrentOutputs(ctx, inputs, runs);
}

// Adds (1 - z) * candidate + z * h, as candidate + z * (h - candidate).
absl::StatusOr<States> BlendStates(NodeContext& ctx, ValueId z,
                                   ValueId candidate, ValueId h) {
  ASSIGN_OR_RETURN(const ValueId difference,
                   ctx.Binary(Binary::kSubtract, h, candidate));
  ASSIGN_OR_RETURN(const ValueId kept,
                   ctx.Binary(Binary::kMultiply, z, difference));
  ASSIGN_OR_RETURN(const ValueId next, Plus(ctx, candidate, kept));
  return States{next};
}

struct GruStep {
  const RecurrentInputs& inputs;
  const Direction& weights;
  const std::vector<RecurrentActivation>& f;
  ValueId r_gates, r_candidate;  // rows of weights.r
};

// Applies the reset gate to the state, before the product with R.
absl::StatusOr<States> GruResetFirst(NodeContext& ctx, const GruStep& step,
                                     ValueId x, ValueId h) {
  const int64_t size = step.inputs.hidden;
  const double clip = step.inputs.clip;
  ASSIGN_OR_RETURN(const ValueId x_gates, Columns(ctx, x, 0, 2 * size));
  ASSIGN_OR_RETURN(const ValueId x_candidate, Columns(ctx, x, 2 * size, size));
  ASSIGN_OR_RETURN(const ValueId sum,
                   Linear(ctx, h, step.r_gates, {.residual = x_gates}));
  ASSIGN_OR_RETURN(const ValueId gates, Activate(ctx, step.f[0], clip, sum));
  ASSIGN_OR_RETURN(const ValueId z, Columns(ctx, gates, 0, size));
  ASSIGN_OR_RETURN(const ValueId r, Columns(ctx, gates, size, size));
  ASSIGN_OR_RETURN(const ValueId reset, ctx.Binary(Binary::kMultiply, r, h));
  ASSIGN_OR_RETURN(
      const ValueId candidate_sum,
      Linear(ctx, reset, step.r_candidate, {.residual = x_candidate}));
  ASSIGN_OR_RETURN(const ValueId candidate,
                   Activate(ctx, step.f[1], clip, candidate_sum));
  return BlendStates(ctx, z, candidate, h);
}

// Applies the reset gate to the product with R (linear_before_reset, as in
// PyTorch).
absl::StatusOr<States> GruResetLast(NodeContext& ctx, const GruStep& step,
                                    ValueId x, ValueId h) {
  const int64_t size = step.inputs.hidden;
  const double clip = step.inputs.clip;
  ASSIGN_OR_RETURN(
      const ValueId product,
      Linear(ctx, h, step.weights.r, {.bias = step.weights.hidden_bias}));
  ASSIGN_OR_RETURN(const ValueId x_gates, Columns(ctx, x, 0, 2 * size));
  ASSIGN_OR_RETURN(const ValueId h_gates, Columns(ctx, product, 0, 2 * size));
  ASSIGN_OR_RETURN(const ValueId sum, Plus(ctx, x_gates, h_gates));
  ASSIGN_OR_RETURN(const ValueId gates, Activate(ctx, step.f[0], clip, sum));
  ASSIGN_OR_RETURN(const ValueId z, Columns(ctx, gates, 0, size));
  ASSIGN_OR_RETURN(const ValueId r, Columns(ctx, gates, size, size));
  ASSIGN_OR_RETURN(const ValueId x_candidate, Columns(ctx, x, 2 * size, size));
  ASSIGN_OR_RETURN(const ValueId h_candidate,
                   Columns(ctx, product, 2 * size, size));
  ASSIGN_OR_RETURN(const ValueId reset,
                   ctx.Binary(Binary::kMultiply, r, h_candidate));
  ASSIGN_OR_RETURN(const ValueId candidate_sum, Plus(ctx, x_candidate, reset));
  ASSIGN_OR_RETURN(const ValueId candidate,
                   Activate(ctx, step.f[1], clip, candidate_sum));
  return BlendStates(ctx, z, candidate, h);
}

absl::Status LowerGru(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const RecurrentInputs inputs,
                   ReadRecurrent(ctx, {3, {"Sigmoid", "Tanh"}}));
  ASSIGN_OR_RETURN(const int64_t linear, ctx.Int("linear_before_reset", 0));
  const int64_t size = inputs.hidden;
  std::vector<Unrolled> runs;
  for (int d = 0; d < inputs.directions; ++d) {
    ASSIGN_OR_RETURN(const Direction weights,
                     ReadWeights(ctx, inputs, d, linear != 0));
    GruStep step{
        inputs, weights, inputs.activations[static_cast<size_t>(d)], {}, {}};
    if (linear == 0) {
      // The gates and the candidate have different factors, so R is split.
      ASSIGN_OR_RETURN(step.r_gates, Rows(ctx, weights.r, 0, 2 * size));
      ASSIGN_OR_RETURN(step.r_candidate, Rows(ctx, weights.r, 2 * size, size));
    }
    const Cell cell = [&](int64_t t,
                          const States& states) -> absl::StatusOr<States> {
      ASSIGN_OR_RETURN(const ValueId x,
                       TakeRow(ctx, weights.from_inputs, 0, t));
      return linear != 0 ? GruResetLast(ctx, step, x, states[0])
                         : GruResetFirst(ctx, step, x, states[0]);
    };
    ASSIGN_OR_RETURN(const ValueId initial, InitialState(ctx, inputs, 5, d));
    ASSIGN_OR_RETURN(
        Unrolled run,
        Unroll(ctx, inputs,
               {.direction = d, .initial = {initial}, .cell = cell}));
    runs.push_back(std::move(run));
  }
  return SetRecurrentOutputs(ctx, inputs, runs);
}

struct LstmStep {
  const RecurrentInputs& inputs;
  const Direction& weights;
  const std::vector<RecurrentActivation>& f;
  bool couple = false;             // forget gate = 1 - input gate
  ValueId peep_i, peep_o, peep_f;  // [hidden] or invalid
};

// Adds the product of the peephole and the cell state, if there is a peephole.
absl::StatusOr<ValueId> Peep(NodeContext& ctx, ValueId gate, ValueId weights,
                             ValueId cell) {
  if (!weights.valid()) return gate;
  ASSIGN_OR_RETURN(const ValueId seen,
                   ctx.Binary(Binary::kMultiply, cell, weights));
  return Plus(ctx, gate, seen);
}

// Activates the input, output and forget gates with one op. This is possible
// only without peepholes.
absl::StatusOr<States> PlainGates(NodeContext& ctx, const LstmStep& step,
                                  ValueId sum) {
  const int64_t size = step.inputs.hidden;
  ASSIGN_OR_RETURN(const ValueId three, Columns(ctx, sum, 0, 3 * size));
  ASSIGN_OR_RETURN(const ValueId gates,
                   Activate(ctx, step.f[0], step.inputs.clip, three));
  States iof;
  for (int64_t k = 0; k < 3; ++k) {
    ASSIGN_OR_RETURN(const ValueId gate, Columns(ctx, gates, k * size, size));
    iof.push_back(gate);
  }
  return iof;
}

// A gate with its peephole.
struct PeepingGate {
  int64_t position = 0;
  ValueId peephole;
  ValueId cell;  // cell state of the peephole
};

absl::StatusOr<ValueId> GateOf(NodeContext& ctx, const LstmStep& step,
                               ValueId sum, const PeepingGate& gate) {
  const int64_t size = step.inputs.hidden;
  ASSIGN_OR_RETURN(const ValueId part,
                   Columns(ctx, sum, gate.position * size, size));
  ASSIGN_OR_RETURN(const ValueId seen,
                   Peep(ctx, part, gate.peephole, gate.cell));
  return Activate(ctx, step.f[0], step.inputs.clip, seen);
}

absl::StatusOr<States> LstmCell(NodeContext& ctx, const LstmStep& step,
                                int64_t t, const States& states) {
  const int64_t size = step.inputs.hidden;
  const double clip = step.inputs.clip;
  ASSIGN_OR_RETURN(const ValueId x,
                   TakeRow(ctx, step.weights.from_inputs, 0, t));
  ASSIGN_OR_RETURN(const ValueId sum,
                   Linear(ctx, states[0], step.weights.r, {.residual = x}));
  const bool plain = !step.peep_i.valid();
  States gates(3);
  if (plain) {
    ASSIGN_OR_RETURN(gates, PlainGates(ctx, step, sum));
  } else {
    ASSIGN_OR_RETURN(gates[0],
                     GateOf(ctx, step, sum, {0, step.peep_i, states[1]}));
    ASSIGN_OR_RETURN(gates[2],
                     GateOf(ctx, step, sum, {2, step.peep_f, states[1]}));
  }
  if (step.couple) {
    const ValueId one = ctx.Scalar(ctx.dtype(sum), 1);
    ASSIGN_OR_RETURN(gates[2], ctx.Binary(Binary::kSubtract, one, gates[0]));
  }
  ASSIGN_OR_RETURN(const ValueId part, Columns(ctx, sum, 3 * size, size));
  ASSIGN_OR_RETURN(const ValueId candidate,
                   Activate(ctx, step.f[1], clip, part));
  ASSIGN_OR_RETURN(const ValueId kept,
                   ctx.Binary(Binary::kMultiply, gates[2], states[1]));
  ASSIGN_OR_RETURN(const ValueId added,
                   ctx.Binary(Binary::kMultiply, gates[0], candidate));
  ASSIGN_OR_RETURN(const ValueId cell, Plus(ctx, kept, added));
  if (!plain) {
    // The output gate's peephole takes the new cell state.
    ASSIGN_OR_RETURN(gates[1], GateOf(ctx, step, sum, {1, step.peep_o, cell}));
  }
  ASSIGN_OR_RETURN(const ValueId shown, Activate(ctx, step.f[2], clip, cell));
  ASSIGN_OR_RETURN(const ValueId h,
                   ctx.Binary(Binary::kMultiply, gates[1], shown));
  return States{h, cell};
}

absl::Status ReadPeepholes(NodeContext& ctx, int direction, LstmStep& step) {
  if (!ctx.has_input(7)) return absl::OkStatus();
  const int64_t size = step.inputs.hidden;
  ASSIGN_OR_RETURN(const ValueId all, ctx.Input(7));
  ASSIGN_OR_RETURN(const Shape wanted,
                   MakeShape(ctx, {step.inputs.directions, 3 * size}));
  if (ctx.shape(all) != wanted) {
    return ctx.Refuse("P is ", ctx.shape(all).ToString(), " but must be ",
                      wanted.ToString());
  }
  // P lists the peepholes in the order i o f.
  ASSIGN_OR_RETURN(const ValueId p, TakeRow(ctx, all, 0, direction));
  ASSIGN_OR_RETURN(step.peep_i, Rows(ctx, p, 0, size));
  ASSIGN_OR_RETURN(step.peep_o, Rows(ctx, p, size, size));
  ASSIGN_OR_RETURN(step.peep_f, Rows(ctx, p, 2 * size, size));
  return absl::OkStatus();
}

absl::Status LowerLstm(NodeContext& ctx) {
  ASSIGN_OR_RETURN(const RecurrentInputs inputs,
                   ReadRecurrent(ctx, {4, {"Sigmoid", "Tanh", "Tanh"}}));
  ASSIGN_OR_RETURN(const int64_t couple, ctx.Int("input_forget", 0));
  std::vector<Unrolled> runs;
  for (int d = 0; d < inputs.directions; ++d) {
    ASSIGN_OR_RETURN(const Direction weights,
                     ReadWeights(ctx, inputs, d, false));
    LstmStep step{
        inputs,      weights, inputs.activations[static_cast<size_t>(d)],
        couple != 0, {},      {},
        {}};
    RETURN_IF_ERROR(ReadPeepholes(ctx, d, step));
    ASSIGN_OR_RETURN(const ValueId h, InitialState(ctx, inputs, 5, d));
    ASSIGN_OR_RETURN(const ValueId c, InitialState(ctx, inputs, 6, d));
    const Cell cell = [&](int64_t t, const States& states) {
      return LstmCell(ctx, step, t, states);
    };
    ASSIGN_OR_RETURN(
        Unrolled run,
        Unroll(ctx, inputs, {.direction = d, .initial = {h, c}, .cell = cell}));
    runs.push_back(std::move(run));
  }
  return SetRecurrentOutputs(ctx, inputs, runs);
}

}  // namespace

absl::Span<const OperatorEntry> RecurrentOperators() {
  static constexpr absl::string_view kFamily = "recurrent";
  static const OperatorEntry rows[] = {
      {"", "GRU", kFamily, kShapes, LowerGru},
      {"", "LSTM", kFamily, kShapes, LowerLstm},
      {"", "RNN", kFamily, kShapes, LowerRnn},
  };
  return rows;
}

}  // namespace gpupool::engine::onnx_import
