// Reverse-mode differentiation as a graph rewrite: appends the gradient nodes
// of a loss. Pure. The rules of the ops are in rules_*.cc.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Appends nodes that compute d loss / d value for each of `with_respect_to`,
// and returns the gradients in the same order, each with its value's type.
// - Gradients have MemoryClass::kGradient.
// - Contributions of several readers are added in the order of the readers,
//   last first.
// - Gradients flow through floating-point values only: comparisons, positions
//   and integers do not count as influence.
// - `loss_gradient`, of the loss's type, is the initial gradient; invalid: 1.
//
// INVALID_ARGUMENT when
// - `loss` is not a single computed floating-point number,
// - a value is not floating-point or does not influence the loss, or
// - an op in between has no rule (named).
absl::StatusOr<std::vector<ValueId>> AddGradients(
    Graph& graph, ValueId loss, absl::Span<const ValueId> with_respect_to,
    ValueId loss_gradient = {});

}  // namespace gpupool::engine
