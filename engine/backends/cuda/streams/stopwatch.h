// Measures work on a stream, for choosing between kernels.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "engine/backends/cuda/streams/streams.h"

namespace gpupool::engine::cuda {

// Returns the milliseconds of one call of `queue`: the median of several calls,
// after one that is not counted. Waits for the stream. Must not be called
// inside a capture.
absl::StatusOr<double> MeasureMillis(
    cudaStream_t stream, const std::function<absl::Status()>& queue);

// Returns the index of the fastest of `count` candidates. Candidates that fail
// are left out. INTERNAL when all fail.
absl::StatusOr<size_t> FindFastest(
    cudaStream_t stream, size_t count,
    const std::function<absl::Status(size_t)>& queue);

}  // namespace gpupool::engine::cuda
