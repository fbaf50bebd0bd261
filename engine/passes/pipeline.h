// The ordered list of graph rewrites and the wrapper that runs each: skip if it
// is switched off, time, run, verify. Pure except for the clock.
//
//   quantise         inference on devices that prefer products of integers:
//                    quantised nets compute with their codes
//   simplify         transposes, reshapes, scales and biases find their place
//   fold             constant sub-graphs become constants
//   cse              equal pure nodes are merged
//   raise            decomposed activations, layer norm, attention: one node
//   fold_batch_norm  inference: batch norm, scale and bias of a channel go into
//                    the weights of the product before
//   autocast         inference: with 16-bit precision, casts around and into
//                    products
//   narrow           inference: weights that only casts to 16 bits read are
//                    stored in 16 bits
//   hoist            inference: nodes of weights only run once, at load
//   fuse             residual and activation go into conv and matmul
//   fuse_elementwise islands of elementwise nodes become one node each
//   layout           channels-last for regions around convolutions
//   dce              nodes that nobody needs are dropped
//   recompute        training: activations are computed again, not kept
//   schedule         the order with the lowest peak
//   alias            views and in-place results are marked
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/graph/graph.h"
#include "engine/passes/schedule/recompute.h"

namespace gpupool::engine {

struct PassOptions {
  // Names of passes to skip. An unknown name is INVALID_ARGUMENT.
  std::vector<std::string> off;
  // Activations that a training step computes again; none by default.
  RecomputeOptions recompute;
  // The type of products and of the ops between them in an inference program:
  // float32 or one of the 16-bit types.
  DType compute = DType::kFloat32;
  // Weights of an inference program that are stored in `compute`, if that is a
  // 16-bit type; see narrow_weights.h.
  absl::flat_hash_set<std::string> narrow;
  // A function that is called after each pass, for dumps. May be empty.
  std::function<void(absl::string_view pass, const Graph&)> observer;
  // Whether the device prefers products of integers, so that quantised nets
  // compute with their codes (DeviceBackend::PrefersIntegerProducts).
  bool integer_products = false;
};

struct PassRecord {
  std::string name;
  bool skipped = false;
  absl::Duration duration;
  size_t nodes_before = 0;
  size_t nodes_after = 0;
};

struct PassReport {
  std::vector<PassRecord> passes;

  // Returns one line for each pass.
  std::string ToString() const;
};

// Returns the names in the order of execution.
std::vector<absl::string_view> PassNames();
// Returns a line about the pass; empty for an unknown name.
absl::string_view PassSummary(absl::string_view name);

// Rewrites `graph` in place. `report` may be null. After an error the graph
// must not be used. INTERNAL, with the pass's name, when a pass breaks the
// graph.
absl::Status RunPasses(Graph& graph, const PassOptions& options,
                       PassReport* report);

}  // namespace gpupool::engine
