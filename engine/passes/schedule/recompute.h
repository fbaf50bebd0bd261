// Gradient checkpointing (Chen et al., "Training Deep Nets with Sublinear
// Memory Cost", 2016, arXiv 1604.06174): activations that the backward pass
// reads are not kept but computed again right before their first reader there.
// The same ops run on the same inputs, random ones with the same counters, so
// results do not change by a bit. Graphs without gradients are left alone.
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

struct RecomputeOptions {
  // Layers (ONNX: nodes) by name, '*' for any characters. Neighbours form one
  // region: what enters it is kept, what is computed inside is not.
  std::vector<std::string> layers;
  // Or: activations are given up, those first that free the most bytes per
  // FLOP, until the largest sum of live bytes of a run is at most this, or
  // nothing more helps. 0: no budget. Workspaces of kernels are not in it.
  uint64_t budget_bytes = 0;

  bool empty() const { return layers.empty() && budget_bytes == 0; }
};

absl::Status Recompute(Graph& graph, const RecomputeOptions& options);

}  // namespace gpupool::engine
