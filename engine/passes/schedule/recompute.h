// Gradient checkpointing (Chen et al., "Training Deep Nets with Sublinear
// Memory Cost", 2016, arXiv 1604.06174): activations that the backward pass
// reads are not kept but computed again right before their first reader there.
// The same ops run on the same inputs, random ones with the same counters, so
// the results have the same bits. Graphs without gradients are not changed.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

struct RecomputeOptions {
  // Names of the layers (ONNX: nodes) to recompute; '*' stands for any
  // characters. Neighbours form one region: its inputs are kept, values
  // computed inside are not.
  std::vector<std::string> layers;
  // A budget in bytes; 0: none. Activations are given up, those that free the
  // most bytes per FLOP first, until the peak of live bytes is within the
  // budget or nothing more helps. Workspaces of kernels are not counted.
  uint64_t budget_bytes = 0;

  bool empty() const { return layers.empty() && budget_bytes == 0; }
};

absl::Status Recompute(Graph& graph, const RecomputeOptions& options);

}  // namespace gpupool::engine
