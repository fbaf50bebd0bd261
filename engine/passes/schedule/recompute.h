// Gradient checkpointing (Chen et al., "Training Deep Nets with Sublinear
// Memory Cost", 2016, arXiv 1604.06174): activations that the backward pass
// reads are not kept but computed again right before their first reader there.
// The same ops run on the same inputs, random ones with the same counters, so
// the results have the same bits. Graphs without gradients are not changed.
// Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
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
  // A budget in bytes; 0: none. The first rung of the ladder whose peak of live
  // bytes is within it is taken, or the one with the lowest peak. Workspaces of
  // kernels are not counted.
  uint64_t budget_bytes = 0;

  bool empty() const { return layers.empty() && budget_bytes == 0; }
};

absl::Status Recompute(Graph& graph, const RecomputeOptions& options);

// Graphs that compute the same and keep fewer and fewer activations. On rung 0
// those of `layers` are given up. Each further rung gives up values that live
// at the peak of the rung below, those that free the most bytes per FLOP first,
// until a fixed share of the first peak is free. The rungs do not depend on a
// budget. So if a search from below finds a rung within one budget, it also
// finds one within every larger budget.
//
// Thread-safety: none. Owns its graphs.
class RecomputeLadder {
 public:
  RecomputeLadder(Graph graph, const std::vector<std::string>& layers);
  ~RecomputeLadder();

  // Returns the graph of a rung, compact; nothing above the top, where giving
  // up more frees nothing.
  std::optional<Graph> At(size_t rung);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::engine
