// The end of a training step: clipping and the optimizer, as graph nodes that
// overwrite the parameters and the optimizer's state. Pure.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

struct StepTailOptions {
  // `clip` in it is set by the step tail.
  std::variant<SgdAttributes, AdamAttributes> optimizer;
  double clip_norm = 0;  // 0: no clipping
};

// State that begins as zeros.
struct OptimizerState {
  std::string name;  // "<parameter>/momentum", "/adam.m", "/adam.v"
  DType dtype = DType::kFloat32;
  Shape shape;
};

// Appends one optimizer node per parameter; gradients[i] belongs to
// parameters[i]. Adds the inputs "learning_rate" (float64 []) and "step"
// (int64 [], from 1). Returns the state that the optimizer keeps, in the
// order of the parameters. InvalidArgument when an attribute is out of range.
absl::StatusOr<std::vector<OptimizerState>> AddStepTail(
    Graph& graph, absl::Span<const ValueId> parameters,
    absl::Span<const ValueId> gradients, const StepTailOptions& options);

}  // namespace gpupool::engine
