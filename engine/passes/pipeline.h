// The ordered list of graph rewrites and the one wrapper around each: skip
// when switched off, time, run, verify. Pure but for the clock.
//
//   simplify         transposes, reshapes, scales and biases find their place
//   fold             constant sub-graphs become constants
//   cse              equal pure nodes are merged
//   raise            decomposed activations, layer norm, attention: one node
//   fold_batch_norm  inference: what follows a product channel by channel
//                    goes into its weights
//   autocast         inference: with 16-bit precision, casts around and into
//                    products
//   narrow           inference: weights that only casts to 16 bits read are
//                    stored in 16 bits
//   hoist            inference: what depends on weights only runs at load
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
  // Names of passes to skip. InvalidArgument for a name that no pass has.
  std::vector<std::string> off;
  // What a training step computes again; nothing unless it says so.
  RecomputeOptions recompute;
  // What products of an inference program and what lies between them run in:
  // float32 or one of the 16-bit types.
  DType compute = DType::kFloat32;
  // Weights that an inference program finds stored in `compute`, if that is a
  // 16-bit type; see narrow_weights.h.
  absl::flat_hash_set<std::string> narrow;
  // Called after each pass, for dumps. May be empty.
  std::function<void(absl::string_view pass, const Graph&)> observer;
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

  // One line per pass.
  std::string ToString() const;
};

// Names in the order in which they run.
std::vector<absl::string_view> PassNames();
// What the pass does, in one line; empty for a name that no pass has.
absl::string_view PassSummary(absl::string_view name);

// Rewrites `graph` in place. `report` may be null. After an error the graph
// is of no use. Internal when a pass breaks the graph (names the pass).
absl::Status RunPasses(Graph& graph, const PassOptions& options,
                       PassReport* report);

}  // namespace gpupool::engine
