// Memory that kernels can reach and the host cannot. Each range of addresses
// that the engine gets has a twin right behind it, and only the twin's pages
// can be touched. Code that follows one of the engine's addresses on the host
// gets a segmentation fault.
//
// Thread-safety: as PageSource; Real from any thread.
#pragma once

#include <cstddef>
#include <map>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "engine/memory/host_page_source.h"

namespace gpupool::engine::standin {

class ProtectedPages : public PageSource {
 public:
  uint64_t granularity() const override { return host_.granularity(); }
  absl::Span<const uint64_t> chunk_sizes() const override {
    return host_.chunk_sizes();
  }
  absl::StatusOr<uint64_t> ReserveRange(uint64_t bytes) override;
  absl::Status FreeRange(const PageRange& range) override;
  absl::StatusOr<ChunkHandle> CreateChunk(uint64_t bytes) override {
    return host_.CreateChunk(bytes);
  }
  absl::Status ReleaseChunk(ChunkHandle chunk) override {
    return host_.ReleaseChunk(chunk);
  }
  absl::Status Map(const PageRange& at, ChunkHandle chunk) override;
  absl::Status Unmap(const PageRange& at) override;

  // Returns the memory behind one of the engine's addresses, and null for null.
  // Ends the process for any other address.
  std::byte* Real(const std::byte* address) const;

 private:
  PageRange Twin(const PageRange& range) const;

  HostPageSource host_;
  mutable absl::Mutex mutex_;
  // Begin -> bytes of the ranges; a range's twin begins where it ends.
  std::map<uint64_t, uint64_t> ranges_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::engine::standin
