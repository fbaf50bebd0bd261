// Pages of the host. A range is a mapping without access rights. Map makes the
// pages of a chunk accessible, and Unmap gives them back to the system. Fresh
// pages are zero. A chunk's handle is only a number, because the host supplies
// memory when a page is first touched.
#pragma once

#include "engine/memory/page_source.h"

namespace gpupool::engine {

class HostPageSource : public PageSource {
 public:
  uint64_t granularity() const override;
  absl::Span<const uint64_t> chunk_sizes() const override;
  absl::StatusOr<uint64_t> ReserveRange(uint64_t bytes) override;
  absl::Status FreeRange(const PageRange& range) override;
  absl::StatusOr<ChunkHandle> CreateChunk(uint64_t bytes) override;
  absl::Status ReleaseChunk(ChunkHandle chunk) override;
  absl::Status Map(const PageRange& at, ChunkHandle chunk) override;
  absl::Status Unmap(const PageRange& at) override;

 private:
  ChunkHandle last_ = 0;
};

}  // namespace gpupool::engine
