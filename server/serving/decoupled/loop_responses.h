// The answer of a model with a Loop as responses, one for each iteration: the
// rows that the iteration gave to the outputs that the Loop stacks. A row keeps
// its first dimension, whose size is 1. The other outputs come with the last
// response. If there was no iteration, they come alone, and without other
// outputs there is no response.
//
// The answer is copied out of its slot once, and is given back with the source.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/serving/decoupled/response_source.h"

namespace gpupool::server {

// The answer of a worker, which may be wrong.
struct LoopAnswer {
  absl::Span<const absl::Span<const std::byte>> outputs;
  absl::Span<const std::vector<int64_t>> shapes;
};

// Returns the responses. `stacked` are the positions of the outputs that the
// Loop stacks, at least one. Internal: one of them has no rows, another number
// of them than the others, or bytes that its rows do not share.
absl::StatusOr<std::unique_ptr<ResponseSource>> MakeLoopResponses(
    const LoopAnswer& answer, absl::Span<const size_t> stacked);

}  // namespace gpupool::server
