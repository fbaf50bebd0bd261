// The common parts of RNN, GRU and LSTM: weights per direction, activations by
// name, initial states, sequence lengths. Pure functions of the context.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/import/onnx/graph/node_context.h"

namespace gpupool::engine::onnx_import {

// An activation function of a recurrent operator.
struct RecurrentActivation {
  std::string name;
  double alpha = 0;
  double beta = 0;
};

// Applies the activation to x. If clip > 0, x is first clipped to [-clip,
// clip].
absl::StatusOr<ValueId> Activate(NodeContext& ctx,
                                 const RecurrentActivation& activation,
                                 double clip, ValueId x);

// `gates` is 1 for RNN, 3 for GRU and 4 for LSTM. `functions` are the
// activations of a direction, with their default names.
struct RecurrentKind {
  int gates = 1;
  std::vector<std::string> functions;
};

struct RecurrentInputs {
  ValueId x;  // [steps, batch, inputs]
  int64_t steps = 0, batch = 0, inputs = 0, hidden = 0;
  int directions = 1;
  bool first_backwards = false;
  bool batch_first = false;  // layout of the file
  double clip = 0;           // 0: none
  // [directions][functions]
  std::vector<std::vector<RecurrentActivation>> activations;
  // int64 [batch, 1]; invalid when all sequences have `steps` steps.
  ValueId lengths;
};

absl::StatusOr<RecurrentInputs> ReadRecurrent(NodeContext& ctx,
                                              const RecurrentKind& kind);

// Most steps that one node may unroll, over all directions.
inline constexpr int64_t kMaxUnrolledSteps = 8192;

// Returns a direction's part of an input. The input's axis 0 counts directions.
absl::StatusOr<ValueId> OfDirection(NodeContext& ctx, int input, int direction);
// Returns a direction's initial state [batch, hidden], or zeros when the input
// is absent.
absl::StatusOr<ValueId> InitialState(NodeContext& ctx,
                                     const RecurrentInputs& inputs, int input,
                                     int direction);

// The states of a cell: first the hidden state, then any others.
using States = std::vector<ValueId>;
// Computes the next states from step `t`.
using Cell = std::function<absl::StatusOr<States>(int64_t t, const States&)>;

// Result of running a cell over all steps of one direction. `outputs` are the
// hidden states by step, with zeros after the end of a sequence. `last` are the
// states at the sequences' ends.
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
