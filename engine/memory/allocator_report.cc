// The part of CachingAllocator that counts and reports.
#include <algorithm>

#include "engine/memory/caching_allocator.h"
#include "engine/memory/out_of_memory.h"

namespace gpupool::engine {
namespace {

constexpr size_t kLarge = static_cast<size_t>(MemoryPool::kLarge);

}  // namespace

void CachingAllocator::Settle() {
  // Blocks that stop leaving stop being "active". The heap gives only counts of
  // them, so the difference is subtracted.
  constexpr BlockSize kSizes[] = {BlockSize::kSmall, BlockSize::kLarge};
  const BlockCount before[] = {heap_.leaving(kSizes[0]),
                               heap_.leaving(kSizes[1])};
  if (!heap_.Settle()) return;
  for (size_t i = 0; i < 2; ++i) {
    const BlockCount& now = heap_.leaving(kSizes[i]);
    for (const size_t pool : {kAllPools, 1 + i}) {
      figures_[pool].active.Subtract(before[i].blocks - now.blocks);
      figures_[pool].active_bytes.Subtract(before[i].bytes - now.bytes);
    }
  }
}

void CachingAllocator::CountFree() {
  figures_[kAllPools].inactive_split.MoveTo(heap_.free().blocks);
  figures_[kAllPools].inactive_split_bytes.MoveTo(heap_.free().bytes);
}

void CachingAllocator::CountMapped() {
  const ChunkMap& chunks = heap_.chunks();
  MemoryFigures& all = figures_[kAllPools];
  all.segment.MoveTo(chunks.created() - chunks.released());
  all.reserved_bytes.MoveTo(chunks.bytes());
  CountFree();
}

MemoryStatistics CachingAllocator::Statistics() const {
  FastMutexLock lock(&mutex_);
  return StatisticsLocked();
}

MemoryStatistics CachingAllocator::StatisticsLocked() const {
  const MemoryFigures& all = figures_[kAllPools];
  MemoryStatistics statistics;
  statistics.limit_bytes = limit_bytes_;
  statistics.allocated_bytes = all.allocated_bytes.current;
  statistics.requested_bytes = all.requested_bytes.current;
  statistics.held_block_bytes = heap_.used().bytes;
  statistics.reserved_bytes = heap_.chunks().bytes();
  statistics.peak_allocated_bytes = all.allocated_bytes.peak;
  statistics.peak_reserved_bytes = all.reserved_bytes.peak;
  statistics.largest_free_bytes = heap_.largest_free_bytes();
  statistics.allocations = all.allocation.allocated;
  statistics.frees = all.allocation.freed();
  statistics.segment_allocations = heap_.chunks().created();
  statistics.segment_frees = heap_.chunks().released();
  statistics.retries = heap_.forced_trims();
  statistics.stream_waits = stream_waits_;
  statistics.out_of_memory = out_of_memory_;
  statistics.owners = ledger_.Usage();
  statistics.figures = figures_;
  MemoryFigures& counted = statistics.figures[kAllPools];
  counted.inactive_split.MoveTo(heap_.free().blocks);
  counted.inactive_split_bytes.MoveTo(heap_.free().bytes);
  MemoryFigures& large = statistics.figures[kLarge];
  // Small and large blocks share chunks; PooledFigures says where they count.
  large.segment = counted.segment;
  large.reserved_bytes = counted.reserved_bytes;
  large.inactive_split = counted.inactive_split;
  large.inactive_split_bytes = counted.inactive_split_bytes;
  return statistics;
}

absl::Status CachingAllocator::OutOfMemory(uint64_t bytes, const Owner& owner,
                                           const std::string& reason) {
  ++out_of_memory_;
  OutOfMemoryFacts facts;
  facts.device = device_;
  facts.owner = owner.Label();
  facts.bytes = bytes;
  facts.reason = reason;
  facts.statistics = StatisticsLocked();
  facts.holders = ledger_.Holders();
  const uint64_t allocated = facts.statistics.allocated_bytes;
  // The room of the owner is the smaller of the device's and the holder's.
  facts.room_bytes = limit_bytes_ > allocated ? limit_bytes_ - allocated : 0;
  const OwnerHolder* const holder = ledger_.Find(owner.holder);
  if (holder != nullptr && !OwnerLedger::Allows(*holder, bytes)) {
    const uint64_t room = holder->limit_bytes - holder->bytes;
    if (room < facts.room_bytes) {
      facts.room_bytes = room;
      facts.limited_holder = holder->name;
    }
  }
  if (history_.on()) {
    const uint64_t reserved = facts.statistics.reserved_bytes;
    history_.Record(
        {MemoryAction::kOutOfMemory,
         full_limit_bytes_ > reserved ? full_limit_bytes_ - reserved : 0, bytes,
         kDefaultStream, 0, facts.owner});
  }
  return OutOfMemoryError(facts);
}

MemorySnapshot CachingAllocator::Snapshot() const {
  FastMutexLock lock(&mutex_);
  MemorySnapshot snapshot;
  heap_.ForEachBlock([&](const Block& block) {
    if (block.state == BlockState::kUnmapped) return;
    // Mapped blocks without a gap between them form one segment.
    if (snapshot.segments.empty() ||
        snapshot.segments.back().address + snapshot.segments.back().bytes !=
            block.address) {
      snapshot.segments.push_back({block.address, 0, {}});
    }
    SegmentFacts& segment = snapshot.segments.back();
    BlockFacts facts;
    facts.offset = segment.bytes;
    facts.bytes = block.bytes;
    facts.free = block.state == BlockState::kFree;
    facts.pending_free = block.state == BlockState::kLeaving;
    if (!facts.free) facts.requested_bytes = block.requested_bytes;
    if (block.state == BlockState::kUsed) {
      facts.owner = block.account->owner.Label();
    }
    segment.bytes += block.bytes;
    segment.blocks.push_back(std::move(facts));
  });
  // Ranges are kept in the order of their reservation, not by address.
  std::sort(snapshot.segments.begin(), snapshot.segments.end(),
            [](const SegmentFacts& a, const SegmentFacts& b) {
              return a.address < b.address;
            });
  snapshot.events = history_.Events();
  return snapshot;
}

}  // namespace gpupool::engine
