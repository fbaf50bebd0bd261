// Copies between pinned host memory and the current device by cudaMemcpyAsync
// alone: what our own copies are measured against.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpupool::engine::testing {

class BareCopy {
 public:
  // Takes that much of both memories and a stream.
  static absl::StatusOr<std::unique_ptr<BareCopy>> Create(uint64_t bytes);
  virtual ~BareCopy() = default;

  // Copies all bytes and waits.
  virtual absl::Status ToDevice() = 0;
  virtual absl::Status FromDevice() = 0;
};

}  // namespace gpupool::engine::testing
