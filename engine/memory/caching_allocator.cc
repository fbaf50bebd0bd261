#include "engine/memory/caching_allocator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/align.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/memory/summary.h"

namespace gpupool::engine {
namespace {

// Requests up to this many bytes share segments of kSmallSegmentBytes; larger
// ones get a segment of their own size. The figures are PyTorch's.
constexpr uint64_t kSmallRequestBytes = 1 << 20;
constexpr uint64_t kSmallSegmentBytes = 2 << 20;
constexpr uint64_t kMostBytes = uint64_t{1} << 62;
constexpr size_t kOwnersInError = 5;

uint64_t AddressOf(const void* data) {
  return reinterpret_cast<uint64_t>(data);
}

}  // namespace

Allocation& Allocation::operator=(Allocation&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  allocator_ = std::exchange(other.allocator_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void Allocation::Reset() {
  if (data_ != nullptr) allocator_->Free(data_);
  allocator_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

CachingAllocator::CachingAllocator(std::string device, uint64_t limit_bytes,
                                   SegmentSource* source)
    : device_(std::move(device)), limit_bytes_(limit_bytes), source_(source) {
  totals_.limit_bytes = limit_bytes;
}

CachingAllocator::~CachingAllocator() {
  absl::MutexLock lock(&mutex_);
  FreeUnusedSegments();
  GPUPOOL_CHECK(segments_.empty());
}

absl::StatusOr<Allocation> CachingAllocator::Allocate(uint64_t bytes,
                                                      const Owner& owner) {
  if (bytes == 0) return Allocation();
  absl::MutexLock lock(&mutex_);
  if (bytes > kMostBytes) {
    return OutOfMemory(bytes, owner, "no device has that many bytes");
  }
  const uint64_t rounded = AlignUp(bytes);
  RETURN_IF_ERROR(CheckLimits(rounded, owner));
  ASSIGN_OR_RETURN(Blocks::iterator block, FindOrGrow(rounded, owner));
  Split(block, rounded);
  Take(block, bytes, owner);
  return Allocation(this, reinterpret_cast<std::byte*>(block->first), bytes);
}

absl::Status CachingAllocator::CheckLimits(uint64_t rounded,
                                           const Owner& owner) {
  if (rounded > limit_bytes_ ||
      totals_.allocated_bytes > limit_bytes_ - rounded) {
    return OutOfMemory(rounded, owner, "the device's limit would be passed");
  }
  auto holder = holders_.find(owner.holder);
  if (holder == holders_.end() || holder->second.limit_bytes == 0) {
    return absl::OkStatus();
  }
  const Holder& bound = holder->second;
  if (rounded <= bound.limit_bytes &&
      bound.bytes <= bound.limit_bytes - rounded) {
    return absl::OkStatus();
  }
  return OutOfMemory(
      rounded, owner,
      absl::StrCat("the limit of ", owner.holder, ", ", bound.limit_bytes,
                   " bytes of which it holds ", bound.bytes,
                   ", would be passed"));
}

absl::StatusOr<CachingAllocator::Blocks::iterator> CachingAllocator::FindOrGrow(
    uint64_t rounded, const Owner& owner) {
  Blocks::iterator found = FindFree(rounded);
  if (found != blocks_.end()) return found;
  uint64_t bytes = SegmentBytesFor(rounded);
  bool retried = false;
  const bool passes_limit = totals_.reserved_bytes > limit_bytes_ - bytes;
  if (passes_limit && FreeUnusedSegments() > 0) retried = true;
  if (passes_limit) bytes = SegmentBytesFor(rounded);
  absl::StatusOr<Blocks::iterator> block = AddSegment(bytes);
  if (!block.ok() && FreeUnusedSegments() > 0) {
    retried = true;
    block = AddSegment(rounded);
  }
  if (retried) ++totals_.retries;
  if (!block.ok()) {
    return OutOfMemory(rounded, owner, std::string(block.status().message()));
  }
  return block;
}

CachingAllocator::Blocks::iterator CachingAllocator::FindFree(
    uint64_t rounded) {
  const auto found = free_.lower_bound({rounded, 0});
  if (found == free_.end()) return blocks_.end();
  const Blocks::iterator block = blocks_.find(found->second);
  // A small request must not break up a large cached segment that is whole.
  const bool whole = block->second.bytes == block->second.segment->bytes;
  const bool small = rounded <= kSmallRequestBytes;
  if (small && whole && block->second.bytes > kSmallSegmentBytes) {
    return blocks_.end();
  }
  return block;
}

uint64_t CachingAllocator::SegmentBytesFor(uint64_t rounded) const {
  if (rounded > kSmallRequestBytes) return rounded;
  const uint64_t room = limit_bytes_ > totals_.reserved_bytes
                            ? limit_bytes_ - totals_.reserved_bytes
                            : 0;
  const uint64_t most = room & ~(kAlignmentBytes - 1);
  return std::max(rounded, std::min(kSmallSegmentBytes, most));
}

absl::StatusOr<CachingAllocator::Blocks::iterator> CachingAllocator::AddSegment(
    uint64_t bytes) {
  ASSIGN_OR_RETURN(void* data, source_->Allocate(bytes));
  const uint64_t address = AddressOf(data);
  GPUPOOL_CHECK(address % kAlignmentBytes == 0);
  auto segment = std::make_unique<Segment>(Segment{address, bytes, 0});
  const auto [block, added] = blocks_.emplace(address, Block());
  GPUPOOL_CHECK(added);
  block->second.segment = segment.get();
  block->second.bytes = bytes;
  free_.insert({bytes, address});
  segments_[address] = std::move(segment);
  ++totals_.segment_allocations;
  totals_.reserved_bytes += bytes;
  totals_.peak_reserved_bytes =
      std::max(totals_.peak_reserved_bytes, totals_.reserved_bytes);
  return block;
}

void CachingAllocator::Split(Blocks::iterator block, uint64_t rounded) {
  const uint64_t rest = block->second.bytes - rounded;
  if (rest == 0) return;
  free_.erase({block->second.bytes, block->first});
  block->second.bytes = rounded;
  free_.insert({rounded, block->first});
  Block remainder;
  remainder.segment = block->second.segment;
  remainder.bytes = rest;
  blocks_.emplace(block->first + rounded, std::move(remainder));
  free_.insert({rest, block->first + rounded});
}

void CachingAllocator::Take(Blocks::iterator block, uint64_t requested,
                            const Owner& owner) {
  const uint64_t bytes = block->second.bytes;
  free_.erase({bytes, block->first});
  block->second.free = false;
  block->second.requested_bytes = requested;
  block->second.owner = owner;
  ++block->second.segment->used_blocks;
  ++totals_.allocations;
  totals_.allocated_bytes += bytes;
  totals_.requested_bytes += requested;
  totals_.peak_allocated_bytes =
      std::max(totals_.peak_allocated_bytes, totals_.allocated_bytes);
  Holder& holder = holders_[owner.holder];
  holder.bytes += bytes;
  holder.peak_bytes = std::max(holder.peak_bytes, holder.bytes);
  holder.uses[owner.use] += bytes;
}

void CachingAllocator::Free(std::byte* data) {
  absl::MutexLock lock(&mutex_);
  const Blocks::iterator block = blocks_.find(AddressOf(data));
  GPUPOOL_CHECK(block != blocks_.end() && !block->second.free);
  const uint64_t bytes = block->second.bytes;
  ++totals_.frees;
  totals_.allocated_bytes -= bytes;
  totals_.requested_bytes -= block->second.requested_bytes;
  Holder& holder = holders_[block->second.owner.holder];
  holder.bytes -= bytes;
  uint64_t& use = holder.uses[block->second.owner.use];
  use -= bytes;
  if (use == 0) holder.uses.erase(block->second.owner.use);
  --block->second.segment->used_blocks;
  block->second.free = true;
  block->second.requested_bytes = 0;
  block->second.owner = Owner();
  MergeWithNeighbours(block);
}

void CachingAllocator::MergeWithNeighbours(Blocks::iterator block) {
  const auto joins = [&](Blocks::iterator other) {
    return other->second.free && other->second.segment == block->second.segment;
  };
  const auto next = std::next(block);
  if (next != blocks_.end() && joins(next)) {
    free_.erase({next->second.bytes, next->first});
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (block != blocks_.begin() && joins(std::prev(block))) {
    const auto previous = std::prev(block);
    free_.erase({previous->second.bytes, previous->first});
    previous->second.bytes += block->second.bytes;
    blocks_.erase(block);
    block = previous;
  }
  free_.insert({block->second.bytes, block->first});
}

uint64_t CachingAllocator::FreeUnusedSegments() {
  uint64_t freed = 0;
  for (auto it = segments_.begin(); it != segments_.end();) {
    const Segment& segment = *it->second;
    if (segment.used_blocks > 0) {
      ++it;
      continue;
    }
    free_.erase({segment.bytes, segment.address});
    blocks_.erase(segment.address);
    source_->Free(reinterpret_cast<void*>(segment.address), segment.bytes);
    freed += segment.bytes;
    ++totals_.segment_frees;
    it = segments_.erase(it);
  }
  totals_.reserved_bytes -= freed;
  return freed;
}

absl::Status CachingAllocator::SetHolderLimit(const std::string& holder,
                                              uint64_t limit_bytes) {
  absl::MutexLock lock(&mutex_);
  Holder& entry = holders_[holder];
  if (limit_bytes != 0 && entry.bytes > limit_bytes) {
    return absl::FailedPreconditionError(absl::StrCat(
        holder, " holds ", entry.bytes, " bytes of ", device_, "; a limit of ",
        limit_bytes, " is below that; free some first"));
  }
  entry.limit_bytes = limit_bytes;
  return absl::OkStatus();
}

uint64_t CachingAllocator::HolderBytes(const std::string& holder) const {
  absl::MutexLock lock(&mutex_);
  const auto found = holders_.find(holder);
  return found == holders_.end() ? 0 : found->second.bytes;
}

uint64_t CachingAllocator::HolderPeakBytes(const std::string& holder) const {
  absl::MutexLock lock(&mutex_);
  const auto found = holders_.find(holder);
  return found == holders_.end() ? 0 : found->second.peak_bytes;
}

void CachingAllocator::ForgetHolder(const std::string& holder) {
  absl::MutexLock lock(&mutex_);
  const auto found = holders_.find(holder);
  if (found == holders_.end()) return;
  GPUPOOL_CHECK(found->second.bytes == 0);
  holders_.erase(found);
}

uint64_t CachingAllocator::EmptyCache() {
  absl::MutexLock lock(&mutex_);
  return FreeUnusedSegments();
}

void CachingAllocator::ResetPeak() {
  absl::MutexLock lock(&mutex_);
  totals_.peak_allocated_bytes = totals_.allocated_bytes;
  totals_.peak_reserved_bytes = totals_.reserved_bytes;
  for (auto& [name, holder] : holders_) holder.peak_bytes = holder.bytes;
}

absl::Status CachingAllocator::OutOfMemory(uint64_t rounded, const Owner& owner,
                                           const std::string& reason) {
  ++totals_.out_of_memory;
  const MemoryStatistics now = StatisticsLocked();
  std::string text = absl::StrCat(
      device_, " has no ", rounded, " bytes for ", owner.Label(), ": ", reason,
      ". Limit ", limit_bytes_, ", allocated ", now.allocated_bytes, ", free ",
      limit_bytes_ - now.allocated_bytes, " bytes.");
  absl::StrAppend(&text, now.owners.empty() ? " Nobody holds anything." : "");
  for (size_t i = 0; i < now.owners.size() && i < kOwnersInError; ++i) {
    absl::StrAppend(&text, i == 0 ? " Held by " : ", ", now.owners[i].label,
                    " ", now.owners[i].bytes);
  }
  if (now.owners.size() > kOwnersInError) {
    absl::StrAppend(&text, " and ", now.owners.size() - kOwnersInError,
                    " more");
  }
  absl::StrAppend(&text, now.owners.empty() ? "" : ".",
                  " Use a smaller batch or model, end or unload one of the "
                  "holders, or raise the device's limit.");
  return absl::ResourceExhaustedError(text);
}

MemoryStatistics CachingAllocator::Statistics() const {
  absl::MutexLock lock(&mutex_);
  return StatisticsLocked();
}

MemoryStatistics CachingAllocator::StatisticsLocked() const {
  MemoryStatistics statistics = totals_;
  if (!free_.empty()) statistics.largest_free_bytes = free_.rbegin()->first;
  for (const auto& [name, holder] : holders_) {
    for (const auto& [use, bytes] : holder.uses) {
      statistics.owners.push_back({Owner{name, use}.Label(), bytes});
    }
  }
  std::stable_sort(statistics.owners.begin(), statistics.owners.end(),
                   [](const OwnerUsage& a, const OwnerUsage& b) {
                     return a.bytes > b.bytes;
                   });
  return statistics;
}

MemorySnapshot CachingAllocator::Snapshot() const {
  absl::MutexLock lock(&mutex_);
  MemorySnapshot snapshot;
  for (const auto& [address, segment] : segments_) {
    SegmentFacts facts{address, segment->bytes, {}};
    auto block = blocks_.find(address);
    for (uint64_t offset = 0; offset < segment->bytes; ++block) {
      const Block& at = block->second;
      facts.blocks.push_back({offset, at.bytes, at.requested_bytes, at.free,
                              at.free ? "" : at.owner.Label()});
      offset += at.bytes;
    }
    snapshot.segments.push_back(std::move(facts));
  }
  return snapshot;
}

std::string CachingAllocator::Summary() const {
  return FormatSummary(device_, Statistics());
}

}  // namespace gpupool::engine
