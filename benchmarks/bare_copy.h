// Copies between pinned host memory and the current device by cudaMemcpyAsync
// alone, as the peer of our own copies.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpupool::engine::testing {

class BareCopy {
 public:
  // Allocates `bytes` of both memories, and a stream.
  static absl::StatusOr<std::unique_ptr<BareCopy>> Create(uint64_t bytes);
  virtual ~BareCopy() = default;

  // Copies all bytes and waits for the copy.
  virtual absl::Status ToDevice() = 0;
  virtual absl::Status FromDevice() = 0;
};

}  // namespace gpupool::engine::testing
