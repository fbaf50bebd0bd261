#include "engine/memory/chunk_map.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {

ChunkMap::ChunkMap(PageSource* source) : source_(source) {}

ChunkMap::~ChunkMap() { Clear(); }

void ChunkMap::Clear() {
  // A lost device takes nothing back, so its chunks are only forgotten.
  while (!chunks_.empty()) {
    const auto& [address, chunk] = *chunks_.begin();
    if (!Unmap({address, chunk.bytes}).ok()) chunks_.erase(chunks_.begin());
  }
}

absl::Status ChunkMap::Map(const PageRange& range, uint64_t* mapped_bytes) {
  const absl::Span<const uint64_t> sizes = source_->chunk_sizes();
  *mapped_bytes = 0;
  while (*mapped_bytes < range.bytes) {
    const uint64_t rest = range.bytes - *mapped_bytes;
    const auto size =
        std::find_if(sizes.begin(), sizes.end(),
                     [rest](uint64_t bytes) { return bytes <= rest; });
    // The smallest chunk is the granularity, which divides every range.
    GPUPOOL_CHECK(size != sizes.end());
    RETURN_IF_ERROR(MapOne({range.address + *mapped_bytes, *size}));
    *mapped_bytes += *size;
  }
  return absl::OkStatus();
}

absl::Status ChunkMap::MapOne(const PageRange& at) {
  ASSIGN_OR_RETURN(const ChunkHandle handle, source_->CreateChunk(at.bytes));
  if (absl::Status status = source_->Map(at, handle); !status.ok()) {
    source_->ReleaseChunk(handle).IgnoreError();  // the first error counts
    return status;
  }
  const bool added =
      chunks_.emplace(at.address, Chunk{at.bytes, handle}).second;
  GPUPOOL_CHECK(added);
  bytes_ += at.bytes;
  ++created_;
  return absl::OkStatus();
}

std::optional<PageRange> ChunkMap::LastIn(const PageRange& range) const {
  auto found = chunks_.lower_bound(range.end());
  // A chunk may begin in the range and end beyond it; an earlier one may fit.
  while (found != chunks_.begin()) {
    --found;
    if (found->first < range.address) return std::nullopt;
    const PageRange at = {found->first, found->second.bytes};
    if (at.end() <= range.end()) return at;
  }
  return std::nullopt;
}

uint64_t ChunkMap::WholeBytesIn(const PageRange& range) const {
  uint64_t bytes = 0;
  for (auto it = chunks_.lower_bound(range.address);
       it != chunks_.end() && it->first + it->second.bytes <= range.end();
       ++it) {
    bytes += it->second.bytes;
  }
  return bytes;
}

absl::Status ChunkMap::Unmap(const PageRange& at) {
  const auto found = chunks_.find(at.address);
  GPUPOOL_CHECK(found != chunks_.end() && found->second.bytes == at.bytes);
  RETURN_IF_ERROR(source_->Unmap(at));
  const ChunkHandle handle = found->second.handle;
  chunks_.erase(found);
  bytes_ -= at.bytes;
  ++released_;
  // Ignores the error: the memory is unreachable now, and the driver's count of
  // free memory shows it if the device did not take it back.
  source_->ReleaseChunk(handle).IgnoreError();
  return absl::OkStatus();
}

}  // namespace gpupool::engine
