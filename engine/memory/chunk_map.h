// The physical chunks by address. Chunks never overlap. The map creates, maps,
// unmaps and releases each of them.
//
// Thread-safety: none. Ownership: the chunks. The destructor unmaps those that
// are left.
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

  // Maps new chunks from the beginning of `range`, the largest that fit first.
  // After an error, the first `mapped_bytes` of the range stay mapped.
  absl::Status Map(const PageRange& range, uint64_t* mapped_bytes);
  // Returns the last chunk that lies wholly in `range`.
  std::optional<PageRange> LastIn(const PageRange& range) const;
  // Returns the bytes of all chunks that lie wholly in `range`.
  uint64_t WholeBytesIn(const PageRange& range) const;
  // Unmaps and releases the chunk at exactly `at`. On an error it stays.
  absl::Status Unmap(const PageRange& at);
  // Gives back every chunk that the device takes and forgets the rest.
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
