// What RNN, GRU and LSTM have in common: weights per direction, activations
// by name, initial states, sequence lengths. Pure functions of the context.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// One of the activation functions of recurrent operators.
struct RecurrentActivation {
  std::string name;
  double alpha = 0;
  double beta = 0;
};

// Applies it to x, clipped to [-clip, clip] first where clip > 0.
absl::StatusOr<ValueId> Activate(NodeContext& ctx,
                                 const RecurrentActivation& activation,
                                 double clip, ValueId x);

// gates: 1 RNN, 3 GRU, 4 LSTM; functions: activations per direction and their
// names when the file has none.
struct RecurrentKind {
  int gates = 1;
  std::vector<std::string> functions;
};

struct RecurrentInputs {
  ValueId x;  // [steps, batch, inputs]
  int64_t steps = 0, batch = 0, inputs = 0, hidden = 0;
  int directions = 1;
  bool first_backwards = false;
  bool batch_first = false;  // the file's layout
  double clip = 0;           // 0: none
  // [directions][functions]
  std::vector<std::vector<RecurrentActivation>> activations;
  // int64 [batch, 1]; invalid when all sequences have `steps` steps.
  ValueId lengths;
};

absl::StatusOr<RecurrentInputs> ReadRecurrent(NodeContext& ctx,
                                              const RecurrentKind& kind);

// Steps of all directions that one node may unroll into.
inline constexpr int64_t kMaxUnrolledSteps = 8192;

// The part of one direction of an input whose axis 0 counts directions.
absl::StatusOr<ValueId> OfDirection(NodeContext& ctx, int input, int direction);
// An initial state [batch, hidden] of a direction; zeros when absent.
absl::StatusOr<ValueId> InitialState(NodeContext& ctx,
                                     const RecurrentInputs& inputs, int input,
                                     int direction);

// States of a cell: hidden, then what else it remembers.
using States = std::vector<ValueId>;
// The next states from step `t`.
using Cell = std::function<absl::StatusOr<States>(int64_t t, const States&)>;

// Runs a cell over all steps of one direction. `outputs`: hidden states by
// step, zeros behind the end of a sequence; `last`: the states at the ends.
struct Unrolled {
  std::vector<ValueId> outputs;
  States last;
};
absl::StatusOr<Unrolled> Unroll(NodeContext& ctx, const RecurrentInputs& inputs,
                                int direction, States initial,
                                const Cell& cell);

// Sets Y (output 0) and the last states (outputs 1...) in the file's layout.
absl::Status SetRecurrentOutputs(NodeContext& ctx,
                                 const RecurrentInputs& inputs,
                                 const std::vector<Unrolled>& directions);

}  // namespace gpupool::engine::onnx_import
