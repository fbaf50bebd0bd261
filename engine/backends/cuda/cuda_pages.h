// Pages of a GPU's memory, by CUDA's virtual memory management.
//
// Thread-safety: as PageSource. The device must be current on every thread that
// calls.
#pragma once

#include <memory>
#include <vector>

#include "engine/backends/cuda/driver/driver_functions.h"
#include "engine/memory/page_source.h"

namespace gpupool::engine::cuda {

class CudaPageSource : public PageSource {
 public:
  // `index` is the runtime's number of the device, whose context must exist.
  static absl::StatusOr<std::unique_ptr<CudaPageSource>> Create(
      const DriverFunctions& driver, int index);

  uint64_t granularity() const override { return chunk_sizes_.back(); }
  absl::Span<const uint64_t> chunk_sizes() const override {
    return chunk_sizes_;
  }
  absl::StatusOr<uint64_t> ReserveRange(uint64_t bytes) override;
  absl::Status FreeRange(const PageRange& range) override;
  absl::StatusOr<ChunkHandle> CreateChunk(uint64_t bytes) override;
  absl::Status ReleaseChunk(ChunkHandle chunk) override;
  absl::Status Map(const PageRange& at, ChunkHandle chunk) override;
  absl::Status Unmap(const PageRange& at) override;

 private:
  CudaPageSource(const DriverFunctions& driver, int device)
      : driver_(driver), device_(device) {}
  CUmemAllocationProp properties() const;

  const DriverFunctions driver_;
  const CUdevice device_;
  std::vector<uint64_t> chunk_sizes_;
};

}  // namespace gpupool::engine::cuda
