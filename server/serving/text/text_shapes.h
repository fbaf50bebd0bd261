// Operators of a TextProgram that move elements: their results have the types
// and the elements of their inputs.
//
// Pure functions. Errors are INVALID_ARGUMENT, and RESOURCE_EXHAUSTED from the
// memory; texts of errors follow the name of the node.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/serving/text/text_memory.h"
#include "server/serving/text/text_tensor.h"

namespace gpupool::server {

using TextInputs = absl::Span<const TextTensor* const>;

// Joins tensors of one type along `axis`, which counts from the end if it is
// below 0. Their other sizes must be equal.
absl::StatusOr<TextTensor> ConcatTexts(TextInputs inputs, int64_t axis,
                                       TextMemory& memory);

// Takes the slices of inputs[0] along `axis` that inputs[1] names. An index
// below 0 counts from the end.
absl::StatusOr<TextTensor> GatherTexts(TextInputs inputs, int64_t axis,
                                       TextMemory& memory);

// Gives inputs[0] the shape that inputs[1] has as numbers. One may be -1: it
// follows from the others. Unless `zeros` a 0 is the size of the input.
absl::StatusOr<TextTensor> ReshapeTexts(TextInputs inputs, bool zeros,
                                        TextMemory& memory);

// Removes the axes inputs[1] of size 1 from inputs[0]; without inputs[1] all
// axes of size 1.
absl::StatusOr<TextTensor> SqueezeTexts(TextInputs inputs, TextMemory& memory);

// Adds axes of size 1 to inputs[0], so that they are the axes inputs[1] of the
// result.
absl::StatusOr<TextTensor> UnsqueezeTexts(TextInputs inputs,
                                          TextMemory& memory);

// Positions of the elements of two inputs for each element of a result that is
// broadcast from them.
struct BroadcastPairs {
  std::vector<int64_t> shape;
  std::vector<uint32_t> left, right;
};

absl::StatusOr<BroadcastPairs> Broadcast(const TextTensor& left,
                                         const TextTensor& right,
                                         TextMemory& memory);

}  // namespace gpupool::server
