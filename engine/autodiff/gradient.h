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
// are added in the order of the readers, last first.
//
// InvalidArgument: `loss` is not made by a loss op with mean reduction, a
// value does not influence it, or an op on the way has no rule (named).
absl::StatusOr<std::vector<ValueId>> AddGradients(
    Graph& graph, ValueId loss, absl::Span<const ValueId> with_respect_to);

}  // namespace gpupool::engine
