// The blocks of one device: found, split, merged, and the mapped pages below
// them grown and trimmed. Knows neither owners nor limits.
//
// Invariants
//   1. Blocks tile each reserved range; mapped blocks lie on chunks, unmapped
//      ones on none.
//   2. No two neighbours are free in the same index, or both unmapped.
//   3. Sizes and addresses of blocks are multiples of kBlockUnitBytes.
//   4. A block is in the index of a stream only until that stream has passed
//      its counter and somebody looked (Settle).
//
// Streams: a block that comes back before its last use has ended is free at
// once for the stream of that use, whose order keeps them apart, and for
// everybody once the stream is past it. With several such streams it is free
// for nobody until at most one is left.
//
// Thread-safety: none (the allocator's lock).
// Ownership: ranges, chunks and blocks. Blocks that it hands out stay its
// own; all must be back before it goes.
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

// Blocks of at most this size are "small" in the statistics; the figure is
// PyTorch's.
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
  // `range_bytes` of addresses are reserved at a time. `timeline` may be
  // null: then every use has ended when a block comes back.
  BlockHeap(PageSource* source, uint64_t range_bytes,
            const TimelineSource* timeline, History* history);
  ~BlockHeap();
  BlockHeap(const BlockHeap&) = delete;
  BlockHeap& operator=(const BlockHeap&) = delete;

  // A free block of at least `bytes`, a multiple of the unit, that `stream`
  // may use at once; null when there is none.
  Block* Find(uint64_t bytes, StreamId stream);
  // One that another stream has not passed yet.
  Block* FindPending(uint64_t bytes);
  // Makes the first `bytes` of a free block a used block for `stream`.
  void Take(Block* block, uint64_t bytes, StreamId stream);
  // Takes a used block back; its uses end at `uses`. The block may be merged
  // away. False when nobody may use it before somebody looked again (Settle).
  bool Return(Block* block, absl::Span<const Moment> uses);
  // Frees for everybody what the streams have passed. False: nothing.
  bool Settle();

  // Maps what lacks for a block of `bytes` for `stream`. Before more than
  // `most_mapped_bytes` would be mapped, and when the device has no more,
  // whole free chunks elsewhere are given back first; only the free parts of
  // chunks in use are then above it.
  //   RESOURCE_EXHAUSTED  the device has no more; what was mapped stays, free
  //   UNAVAILABLE         it would be more than `most_mapped_bytes`, and some
  //                       free memory is still in use by streams
  absl::Status Grow(uint64_t bytes, StreamId stream,
                    uint64_t most_mapped_bytes);
  // Gives back up to `bytes` of whole chunks that are free for everybody, and
  // a chunk's rest; from high addresses on. Returns the bytes. Stops at the
  // first chunk that the device does not take back.
  uint64_t Trim(uint64_t bytes);
  // The earliest moment of one stream after which a block of `bytes` would be
  // found, or mapped within `most_mapped_bytes` in place of chunks that are
  // then free; if no stream alone is enough, the last moment of one. Nothing:
  // no stream has anything open.
  std::optional<Moment> MomentToWaitFor(uint64_t bytes,
                                        uint64_t most_mapped_bytes) const;

  // By address, reserved but unmapped parts included.
  void ForEachBlock(const std::function<void(const Block&)>& visit) const;
  uint64_t largest_free_bytes() const;
  const ChunkMap& chunks() const { return chunks_; }
  const BlockCount& used() const { return used_; }
  const BlockCount& free() const { return free_; }
  // Given back, but free for nobody yet.
  const BlockCount& leaving(BlockSize size) const {
    return left_[static_cast<size_t>(size)];
  }
  // Times that Grow gave chunks back for others.
  uint64_t forced_trims() const { return forced_trims_; }

 private:
  // A reserved range; the block that closes it has no bytes and never
  // changes.
  struct Range {
    PageRange at;
    Block* first = nullptr;
    Block* end = nullptr;
  };
  // Where and how much to map.
  struct Growth {
    Block* hole = nullptr;
    bool at_end = false;  // of the hole
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

  // Returns a block in no list; state, stream, moment and neighbours are the
  // caller's to set.
  Block* NewBlock(uint64_t address, uint64_t bytes);
  void Recycle(Block* block);
  // Cuts a block in two; the second part is returned and is in no list.
  Block* SplitOff(Block* block, uint64_t address);
  // Joins `block` and the one after it, which is recycled.
  void JoinNext(Block* block);
  void AddHole(Block* block);
  void RemoveHole(Block* block);
  void Link(Block* block);
  void Unlink(Block* block);
  void MakeFree(Block* block, Moment after);
  // Takes a block back that streams may still use; see Return.
  bool Leave(Block* block, absl::Span<const Moment> uses);
  std::vector<Moment> OpenMoments(const Block& block,
                                  absl::Span<const Moment> uses) const;
  bool IsOpen(const Moment& moment) const;
  bool HasOpenUses() const;
  // Whether a block would be free for everybody once `moment` has passed.
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
  FreeIndex common_;  // free for everybody
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
