// What a kFused node computes, step by step: for its type rule, for the passes
// that build such nodes and for the kernels that run them. Pure functions.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/graph/ops.h"

namespace gpupool::engine {

// Whether nodes of this op compute each output element from the elements at
// the same place, so that they may become steps.
bool MayBeFusedStep(Op op);

// The attributes of a step as a node carries them, and back. The latter aborts
// for ops that may not be steps.
Attributes StepAttributes(const FusedStep& step);
FusedStep MakeFusedStep(Op op, const Attributes& attributes,
                        std::vector<int> operands);

// The element type of every operand: first the inputs, then the steps.
// InvalidArgument when a step's op, attributes or operands are wrong, when an
// input does not broadcast to the node's shape, or a result is no step.
absl::StatusOr<std::vector<DType>> FusedOperandTypes(
    const FusedAttributes& fused, absl::Span<const TensorType> inputs);

}  // namespace gpupool::engine
