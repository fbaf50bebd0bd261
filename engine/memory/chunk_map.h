// Which physical chunk lies at which address. Chunks never overlap; each was
// created, mapped and will be unmapped and released by this map.
//
// Thread-safety: none. Ownership: the chunks; all must have been unmapped, or
// are unmapped by the destructor.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "absl/status/status.h"
#include "engine/memory/page_source.h"

namespace gpupool::engine {

class ChunkMap {
 public:
  explicit ChunkMap(PageSource* source);
  ~ChunkMap();
  ChunkMap(const ChunkMap&) = delete;
  ChunkMap& operator=(const ChunkMap&) = delete;

  // Maps new chunks from the beginning of `range` on, the largest that fit
  // first. After an error `mapped_bytes` of it, from the beginning, stay.
  absl::Status Map(const PageRange& range, uint64_t* mapped_bytes);
  // The last chunk that lies in `range` as a whole.
  std::optional<PageRange> LastIn(const PageRange& range) const;
  // Bytes of all chunks that lie in `range` as a whole.
  uint64_t WholeBytesIn(const PageRange& range) const;
  // Gives the chunk at exactly `at` back. On an error it stays.
  absl::Status Unmap(const PageRange& at);
  // Gives everything back that the device takes; the rest is forgotten.
  void Clear();

  uint64_t bytes() const { return bytes_; }
  uint64_t created() const { return created_; }    // chunks, since start
  uint64_t released() const { return released_; }  // likewise

 private:
  struct Chunk {
    uint64_t bytes = 0;
    ChunkHandle handle = 0;
  };
  absl::Status MapOne(const PageRange& at);

  PageSource* const source_;
  std::map<uint64_t, Chunk> chunks_;
  uint64_t bytes_ = 0;
  uint64_t created_ = 0;
  uint64_t released_ = 0;
};

}  // namespace gpupool::engine
