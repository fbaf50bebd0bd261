// How long work on a stream takes, for choosing between kernels.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "engine/backends/cuda/streams/streams.h"

namespace gpupool::engine::cuda {

// Milliseconds of one call of `queue`, the median of several after one that is
// not counted. Waits for the stream. Not to be used inside a capture.
absl::StatusOr<double> MeasureMillis(
    cudaStream_t stream, const std::function<absl::Status()>& queue);

// The position of the fastest of `count` candidates; those that fail are left
// out. INTERNAL when all do.
absl::StatusOr<size_t> FindFastest(
    cudaStream_t stream, size_t count,
    const std::function<absl::Status(size_t)>& queue);

}  // namespace gpupool::engine::cuda
