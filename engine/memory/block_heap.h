// The blocks of one device. The heap finds, splits and merges blocks, and maps
// and unmaps the pages below them. It knows neither owners nor limits.
//
// Invariants
//   1. Blocks tile each reserved range. Mapped blocks lie on chunks, unmapped
//      ones on none.
//   2. No two neighbours are free in the same index, or both unmapped.
//   3. Sizes and addresses of blocks are multiples of kBlockUnitBytes.
//   4. A block stays in the index of a stream at most until the first Settle
//      after that stream has passed the block's counter.
//
// Streams: a block may come back before its last use has ended. If that use is
// on one stream, the block is free at once for that stream, whose order keeps
// the uses apart, and for all streams once that stream has passed the use. If
// several streams still use it, it is free for none until at most one is left.
//
// Thread-safety: none; it is under the allocator's lock.
// Ownership: the heap owns ranges, chunks and blocks, also blocks that it has
// handed out. All of those must be back before it is destroyed.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/memory/block.h"
#include "engine/memory/chunk_map.h"
#include "engine/memory/free_index.h"
#include "engine/memory/history.h"
#include "engine/memory/page_source.h"
#include "engine/memory/stream_frees.h"
#include "engine/memory/timeline.h"

namespace gpupool::engine {

// The largest block that statistics call "small", as in PyTorch.
inline constexpr uint64_t kSmallBlockBytes = 1 << 20;
enum class BlockSize : uint8_t { kSmall, kLarge };
constexpr BlockSize SizeOf(uint64_t bytes) {
  return bytes > kSmallBlockBytes ? BlockSize::kLarge : BlockSize::kSmall;
}

struct BlockCount {
  uint64_t blocks = 0;
  uint64_t bytes = 0;
};

class BlockHeap {
 public:
  // Reserves `range_bytes` of addresses at a time. With a null `timeline` every
  // use has ended when a block comes back.
  BlockHeap(PageSource* source, uint64_t range_bytes,
            const TimelineSource* timeline, History* history);
  ~BlockHeap();
  BlockHeap(const BlockHeap&) = delete;
  BlockHeap& operator=(const BlockHeap&) = delete;

  // Returns a free block of at least `bytes`, a multiple of the unit, that
  // `stream` may use at once; null when there is none.
  Block* Find(uint64_t bytes, StreamId stream);
  // Returns a free block whose last use, on any stream, may not have ended;
  // null when there is none.
  Block* FindPending(uint64_t bytes);
  // Turns the first `bytes` of a free block into a used block for `stream`.
  void Take(Block* block, uint64_t bytes, StreamId stream);
  // Takes a used block back; its uses end at `uses`. The block may be merged
  // away. Returns false when no stream may use it before the next Settle.
  bool Return(Block* block, absl::Span<const Moment> uses);
  // Frees for all streams the blocks whose uses have ended. Returns false when
  // there were none.
  bool Settle();

  // Maps the memory that is missing for a block of `bytes` for `stream`. If the
  // device has no more, or more than `most_mapped_bytes` would be mapped, it
  // unmaps whole free chunks elsewhere first. Only the free parts of chunks in
  // use may lie above that bound.
  //   RESOURCE_EXHAUSTED  the device has no more; what was mapped stays, free
  //   UNAVAILABLE         the bound would be passed while streams still use
  //                       free memory
  absl::Status Grow(uint64_t bytes, StreamId stream,
                    uint64_t most_mapped_bytes);
  // Unmaps up to `bytes`, rounded up to whole chunks, of chunks that are free
  // for all streams, from high addresses down. Returns the bytes. Stops at the
  // first chunk that the device does not take back.
  uint64_t Trim(uint64_t bytes);
  // Returns the earliest moment of one stream after which a block of `bytes`
  // could be found, or mapped within `most_mapped_bytes` in place of the chunks
  // that are then free. If no single stream is enough, returns the last moment
  // of one. Returns nothing when no stream has open uses.
  std::optional<Moment> MomentToWaitFor(uint64_t bytes,
                                        uint64_t most_mapped_bytes) const;

  // Visits blocks by address within a range, unmapped parts included.
  void ForEachBlock(const std::function<void(const Block&)>& visit) const;
  uint64_t largest_free_bytes() const;
  const ChunkMap& chunks() const { return chunks_; }
  const BlockCount& used() const { return used_; }
  const BlockCount& free() const { return free_; }
  // Returns the blocks that were given back but are free for no stream yet.
  const BlockCount& leaving(BlockSize size) const {
    return left_[static_cast<size_t>(size)];
  }
  // Returns how often Grow unmapped chunks to make room.
  uint64_t forced_trims() const { return forced_trims_; }

 private:
  // A reserved range. Its closing block `end` has no bytes and never changes.
  struct Range {
    PageRange at;
    Block* first = nullptr;
    Block* end = nullptr;
  };
  // A place and a byte count to map.
  struct Growth {
    Block* hole = nullptr;
    bool at_end = false;  // maps the end of the hole, not its begin
    uint64_t bytes = 0;
    const Block* left = nullptr;  // free neighbours that count
    const Block* right = nullptr;
  };
  static void Add(BlockCount& count, const Block& block) {
    ++count.blocks;
    count.bytes += block.bytes;
  }
  static void Subtract(BlockCount& count, const Block& block) {
    --count.blocks;
    count.bytes -= block.bytes;
  }
  BlockCount& LeftOf(const Block& block) {
    return left_[static_cast<size_t>(SizeOf(block.bytes))];
  }
  struct Leaving {
    Block* block = nullptr;
    std::vector<Moment> open;
  };

  // Returns a block that is in no list. The caller sets its state, stream,
  // moment and neighbours.
  Block* NewBlock(uint64_t address, uint64_t bytes);
  void Recycle(Block* block);
  // Cuts a block in two and returns the second part, which is in no list.
  Block* SplitOff(Block* block, uint64_t address);
  // Merges `block` with the one after it, which is recycled.
  void JoinNext(Block* block);
  void AddHole(Block* block);
  void RemoveHole(Block* block);
  void Link(Block* block);
  void Unlink(Block* block);
  void MakeFree(Block* block, Moment after);
  // Takes back a block that streams may still use; see Return.
  bool Leave(Block* block, absl::Span<const Moment> uses);
  std::vector<Moment> OpenMoments(const Block& block,
                                  absl::Span<const Moment> uses) const;
  bool IsOpen(const Moment& moment) const;
  bool HasOpenUses() const;
  // Returns whether a block would be free for all streams after `moment`.
  bool IsFreeAfter(const Block& block, const Moment& moment) const;
  bool ServesAfter(const Moment& moment, uint64_t bytes,
                   uint64_t most_mapped_bytes) const;
  bool IsUsableBy(const Block* block, StreamId stream) const;

  absl::Status AddRange(uint64_t bytes);
  Growth PlanGrowth(uint64_t bytes, StreamId stream) const;
  absl::Status Map(const Growth& growth);
  uint64_t TrimBut(uint64_t bytes, const Growth& kept);
  void Carve(Block* block, const PageRange& chunk);

  PageSource* const source_;
  const uint64_t granularity_;
  const uint64_t range_bytes_;
  const TimelineSource* const timeline_;
  History* const history_;
  ChunkMap chunks_;
  std::vector<Range> ranges_;
  FreeIndex common_;  // free for all streams
  std::map<StreamId, StreamFrees> streams_;
  std::vector<Leaving> leaving_;
  Block* holes_ = nullptr;
  std::deque<Block> storage_;
  Block* spare_ = nullptr;
  BlockCount used_, free_;
  std::array<BlockCount, 2> left_;
  uint64_t forced_trims_ = 0;
};

}  // namespace gpupool::engine
