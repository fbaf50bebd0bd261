// The part of BlockHeap that maps and unmaps pages.
#include <algorithm>

#include "engine/base/align.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/memory/block_heap.h"

namespace gpupool::engine {
namespace {

bool IsHole(const Block* block) {
  return block != nullptr && block->state == BlockState::kUnmapped;
}

}  // namespace

// Adds an unmapped block to the list, merged with neighbouring holes.
void BlockHeap::AddHole(Block* block) {
  block->state = BlockState::kUnmapped;
  block->after = Moment();
  block->stream = kDefaultStream;
  if (IsHole(block->next)) {
    RemoveHole(block->next);
    JoinNext(block);
  }
  // The hole before it is in the list already, and its links stay valid while
  // it grows.
  if (IsHole(block->previous)) {
    JoinNext(block->previous);
    return;
  }
  block->next_free = holes_;
  block->link = &holes_;
  if (holes_ != nullptr) holes_->link = &block->next_free;
  holes_ = block;
}

void BlockHeap::RemoveHole(Block* block) {
  *block->link = block->next_free;
  if (block->next_free != nullptr) block->next_free->link = block->link;
}

// Reserves a range that begins as one hole. The closing block counts as used,
// so neighbours never need a test for the end of the range.
absl::Status BlockHeap::AddRange(uint64_t bytes) {
  uint64_t whole = std::max(bytes, AlignUp(range_bytes_, granularity_));
  absl::StatusOr<uint64_t> reserved = source_->ReserveRange(whole);
  // Tries smaller ranges when addresses are scarce (a limit of the process).
  while (absl::IsResourceExhausted(reserved.status()) && whole > bytes) {
    whole = std::max(bytes, AlignUp(whole / 2, granularity_));
    reserved = source_->ReserveRange(whole);
  }
  RETURN_IF_ERROR(reserved.status());
  const uint64_t address = *reserved;
  // Pages are mapped in units of the granularity, counted from address 0.
  GPUPOOL_CHECK(address % granularity_ == 0);
  Block* const hole = NewBlock(address, whole);
  Block* const end = NewBlock(address + whole, 0);
  hole->previous = nullptr;
  hole->next = end;
  end->previous = hole;
  end->next = nullptr;
  end->state = BlockState::kUsed;
  AddHole(hole);
  ranges_.push_back({{address, whole}, hole, end});
  return absl::OkStatus();
}

bool BlockHeap::IsUsableBy(const Block* block, StreamId stream) const {
  return block != nullptr && block->state == BlockState::kFree &&
         (block->after.counter == 0 || block->after.stream == stream);
}

BlockHeap::Growth BlockHeap::PlanGrowth(uint64_t bytes, StreamId stream) const {
  // Takes the hole that needs the fewest new bytes; ties go to low addresses,
  // so that high chunks become free and can be trimmed.
  Growth best;
  const auto consider = [&best](Growth growth, uint64_t map_bytes) {
    // A hole cannot map more than it has.
    if (map_bytes > growth.hole->bytes) return;
    const bool better =
        best.hole == nullptr || map_bytes < best.bytes ||
        (map_bytes == best.bytes && growth.hole->address < best.hole->address);
    if (!better) return;
    best = growth;
    best.bytes = map_bytes;
  };
  // The bytes to map so that they suffice together with a free neighbour.
  const auto lack = [&](const Block* beside) {
    const uint64_t there = beside == nullptr ? 0 : beside->bytes;
    return AlignUp(bytes > there ? bytes - there : 1, granularity_);
  };
  for (Block* hole = holes_; hole != nullptr; hole = hole->next_free) {
    const Block* const left =
        IsUsableBy(hole->previous, stream) ? hole->previous : nullptr;
    const Block* const right =
        IsUsableBy(hole->next, stream) ? hole->next : nullptr;
    consider({hole, false, 0, left, nullptr}, lack(left));
    if (right == nullptr) continue;
    consider({hole, true, 0, nullptr, right}, lack(right));
    // The neighbours meet only when the whole hole between them is mapped.
    if (left == nullptr || left->home != right->home) continue;
    if (left->bytes + hole->bytes + right->bytes >= bytes) {
      consider({hole, false, 0, left, right}, hole->bytes);
    }
  }
  return best;
}

absl::Status BlockHeap::Map(const Growth& growth) {
  Block* const hole = growth.hole;
  const uint64_t address =
      growth.at_end ? hole->end() - growth.bytes : hole->address;
  const Block* const beside = growth.at_end ? growth.right : growth.left;
  // Fresh memory is free at once, but it joins the index of its neighbour, so
  // that both can be merged into the block that is wanted.
  const Moment after = beside == nullptr ? Moment() : beside->after;
  uint64_t mapped = 0;
  const absl::Status status = chunks_.Map({address, growth.bytes}, &mapped);
  // A part may have been mapped before the error. It is used all the same.
  if (mapped == 0) return status;
  if (history_->on()) {
    history_->Record({MemoryAction::kSegmentMap, address, mapped});
  }
  RemoveHole(hole);
  hole->state = BlockState::kFree;
  Block* fresh = hole;
  if (address + mapped < hole->end()) {
    AddHole(SplitOff(hole, address + mapped));
  }
  if (address > hole->address) {
    fresh = SplitOff(hole, address);
    AddHole(hole);
  }
  MakeFree(fresh, after);
  return status;
}

bool BlockHeap::HasOpenUses() const {
  return !leaving_.empty() ||
         std::any_of(streams_.begin(), streams_.end(), [](const auto& entry) {
           return entry.second.first() != nullptr;
         });
}

absl::Status BlockHeap::Grow(uint64_t bytes, StreamId stream,
                             uint64_t most_mapped_bytes) {
  Growth growth = PlanGrowth(bytes, stream);
  if (growth.hole == nullptr) {
    RETURN_IF_ERROR(AddRange(AlignUp(bytes, granularity_)));
    growth = PlanGrowth(bytes, stream);
  }
  const uint64_t after = chunks_.bytes() + growth.bytes;
  bool trimmed = false;
  if (after > most_mapped_bytes) {
    const uint64_t over = after - most_mapped_bytes;
    const uint64_t given_back = TrimBut(over, growth);
    trimmed = given_back > 0;
    forced_trims_ += trimmed ? 1 : 0;
    // The caller may wait for these streams and try again. Without such uses, a
    // wait would bring nothing.
    if (given_back < over && HasOpenUses()) {
      return absl::UnavailableError("streams still use free memory");
    }
    // Trimming has merged holes, so the plan may point at a recycled block.
    growth = PlanGrowth(bytes, stream);
  }
  absl::Status status = Map(growth);
  // Within the bound, but other programs use the device: makes room first.
  if (absl::IsResourceExhausted(status)) {
    growth = PlanGrowth(bytes, stream);
    if (growth.hole != nullptr && TrimBut(growth.bytes, growth) > 0) {
      forced_trims_ += trimmed ? 0 : 1;
      status = Map(PlanGrowth(bytes, stream));
    }
  }
  return status;
}

uint64_t BlockHeap::Trim(uint64_t bytes) { return TrimBut(bytes, Growth()); }

uint64_t BlockHeap::TrimBut(uint64_t bytes, const Growth& kept) {
  uint64_t trimmed = 0;
  // The tail of a range goes first, so holes gather at high addresses.
  for (auto range = ranges_.rbegin(); range != ranges_.rend(); ++range) {
    Block* block = range->end->previous;
    while (block != nullptr && trimmed < bytes) {
      Block* const previous = block->previous;
      const bool ours =
          // The device may still use blocks of a stream's own index. The kept
          // neighbours are a part of the growth that is planned.
          block->home == &common_ && block != kept.left && block != kept.right;
      const auto chunk =
          ours ? chunks_.LastIn({block->address, block->bytes}) : std::nullopt;
      if (!chunk.has_value()) {
        block = previous;
        continue;
      }
      // A chunk that could not be unmapped stays as it was.
      if (!chunks_.Unmap(*chunk).ok()) return trimmed;
      trimmed += chunk->bytes;
      const bool more = chunk->address > block->address;
      Carve(block, *chunk);
      block = more ? block : previous;
    }
  }
  return trimmed;
}

// Cuts an unmapped chunk out of a free block and makes it a hole.
void BlockHeap::Carve(Block* block, const PageRange& chunk) {
  if (history_->on()) {
    history_->Record({MemoryAction::kSegmentUnmap, chunk.address, chunk.bytes});
  }
  Unlink(block);
  if (chunk.end() < block->end()) Link(SplitOff(block, chunk.end()));
  if (chunk.address == block->address) return AddHole(block);
  Block* const hole = SplitOff(block, chunk.address);
  Link(block);
  AddHole(hole);
}

}  // namespace gpupool::engine
