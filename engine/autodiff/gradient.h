// Reverse-mode differentiation as a graph rewrite: appends the gradient nodes
// of a loss. Pure. Each op's rule is in rules_*.cc.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/graph/graph.h"

namespace gpupool::engine {

// Appends nodes that compute d loss / d value for each of `with_respect_to`
// and returns the gradients in the same order, each of its value's type.
// Gradients count as MemoryClass::kGradient. Contributions of several readers
// are added in the order of the readers, last first. Gradients flow through
// floating values only: what goes through comparisons, positions or integers
// does not count as influence. `loss_gradient`, of the loss's type, is what
// they begin with; invalid: 1.
//
// InvalidArgument: `loss` is not one computed floating point number, a value
// is not floating or does not influence the loss, or an op on the way has no
// rule (named).
absl::StatusOr<std::vector<ValueId>> AddGradients(
    Graph& graph, ValueId loss, absl::Span<const ValueId> with_respect_to,
    ValueId loss_gradient = {});

}  // namespace gpupool::engine
