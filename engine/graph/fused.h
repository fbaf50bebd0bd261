// The steps of a kFused node, for its type rule, the passes that build such
// nodes and the kernels that run them. Pure functions.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/graph/ops.h"

namespace gpupool::engine {

// Returns whether nodes of this op may become steps: each output element
// depends only on the input elements at the same place.
bool MayBeFusedStep(Op op);

// Convert between a step's attributes and those of a node. MakeFusedStep aborts
// for ops that may not be steps.
Attributes StepAttributes(const FusedStep& step);
FusedStep MakeFusedStep(Op op, const Attributes& attributes,
                        std::vector<int> operands);

// Returns the element type of every operand, inputs first, then steps.
// INVALID_ARGUMENT when
// - a step's op, attributes or operands are wrong,
// - an input does not broadcast to the node's shape, or
// - a result is no step.
absl::StatusOr<std::vector<DType>> FusedOperandTypes(
    const FusedAttributes& fused, absl::Span<const TensorType> inputs);

}  // namespace gpupool::engine
