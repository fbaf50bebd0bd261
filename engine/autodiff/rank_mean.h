// Means of a step's gradients and loss over the ranks of a data parallel job,
// as graph nodes. Pure.
//
// Gradients travel in buckets (engine/collective/gradient_buckets.h) in the
// order in which backward produces them, with one kAllReduceStart and one
// kAllReduceWait for each bucket. The schedule puts a start right after the
// bucket's last gradient, so that the sum travels while backward continues, and
// all waits after backward.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/collective/gradient_buckets.h"
#include "engine/graph/builder.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Returns the positions of `gradients` in the order in which the graph's nodes
// write them.
std::vector<int> OrderOfAppearance(const Graph& graph,
                                   absl::Span<const ValueId> gradients);

// Replaces each of the float32 `gradients`, and the graph's output "loss"
// (float32 []), by its mean over `ranks` ranks. `order` is the order of the
// buckets. Two inputs (float32 []) travel with the loss in the last bucket, and
// their means are outputs of the same names:
//   earlier_loss  the loss of the step's other batches
//   stop_wanted   0, or 1 on a rank that wants the job to stop
// With one rank nothing is added.
absl::Status AddRankMean(int ranks, absl::Span<const int> order,
                         GraphBuilder& builder, std::vector<ValueId>& gradients,
                         const BucketSizes& sizes = {});

}  // namespace gpupool::engine
