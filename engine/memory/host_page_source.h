// Pages of the host. A range is a mapping that nobody may touch; mapping a
// chunk makes its pages accessible, and unmapping gives them back to the
// system. Fresh pages are zero. A chunk's handle is only a number: the host
// finds memory when a page is touched first.
//
// Thread-safety: as PageSource.
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
