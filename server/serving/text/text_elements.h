// Elements of a TextTensor as requests and answers have them.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "gpupool/v1/model.pb.h"
#include "server/serving/text/text_memory.h"
#include "server/serving/text/text_tensor.h"

namespace gpupool::server {

// Reads the elements of a request, which has as many bytes as the shape takes.
// Texts are views of `bytes`. INVALID_ARGUMENT when lengths of texts do not
// fit, RESOURCE_EXHAUSTED when the elements are too many.
absl::StatusOr<TextTensor> ReadTextElements(v1::DataType type,
                                            std::vector<int64_t> shape,
                                            absl::Span<const std::byte> bytes,
                                            TextMemory& memory);

// Returns the elements as InferenceCall::OnAnswer gives them: in HeldType, and
// texts with their lengths. RESOURCE_EXHAUSTED when they are too large.
absl::StatusOr<std::string> WriteTextElements(const TextTensor& tensor,
                                              TextMemory& memory);

}  // namespace gpupool::server
