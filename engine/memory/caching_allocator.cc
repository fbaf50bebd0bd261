#include "engine/memory/caching_allocator.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/align.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/memory/out_of_memory.h"
#include "engine/memory/summary.h"

namespace gpupool::engine {
namespace {

constexpr uint64_t kMostCachedBytes = uint64_t{1} << 62;
// The upper bound of one range of addresses. A range is normally twice the
// device's memory, so it rarely runs out; this bounds it for a limit that is
// only nominal.
constexpr uint64_t kMostRangeBytes = uint64_t{1} << 43;
// The history is in host memory, about a hundred bytes for each entry.
constexpr uint64_t kMostHistoryEntries = 10'000'000;

size_t PoolOf(uint64_t block_bytes) {
  return static_cast<size_t>(SizeOf(block_bytes) == BlockSize::kSmall
                                 ? MemoryPool::kSmall
                                 : MemoryPool::kLarge);
}

MemoryEvent EventOf(MemoryAction action, const Block& used) {
  return {action,
          used.address,
          used.requested_bytes,
          used.stream,
          0,
          used.account->owner.Label()};
}

uint64_t RangeBytes(uint64_t limit_bytes) {
  // The half is compared, so that the product cannot overflow.
  return 2 * std::min(std::max<uint64_t>(limit_bytes, 1), kMostRangeBytes / 2);
}

}  // namespace

std::optional<Moment> Allocation::wait() const {
  // A wait for the own stream is void: its order keeps the uses apart.
  if (block_ == nullptr || block_->after.counter == 0 ||
      block_->after.stream == block_->stream) {
    return std::nullopt;
  }
  return block_->after;
}

void Allocation::ResetAfter(absl::Span<const Moment> uses) {
  Block* const block = std::exchange(block_, nullptr);
  if (block != nullptr) allocator_->Free(block, uses);
}

CachingAllocator::CachingAllocator(std::string device, uint64_t limit_bytes,
                                   PageSource* source, TimelineSource* timeline)
    : device_(std::move(device)),
      full_limit_bytes_(limit_bytes),
      granularity_(source->granularity()),
      timeline_(timeline),
      heap_(source, RangeBytes(limit_bytes), timeline, &history_),
      limit_bytes_(limit_bytes) {
  GPUPOOL_CHECK(granularity_ % kBlockUnitBytes == 0);
}

absl::StatusOr<Allocation> CachingAllocator::Allocate(
    uint64_t bytes, const Owner& owner, const AllocateOptions& options) {
  if (bytes == 0) return Allocation();
  FastMutexLock lock(&mutex_);
  // Rounding a larger number up would overflow.
  if (bytes > kMostCachedBytes) {
    return OutOfMemory(bytes, owner, "no device has that many bytes");
  }
  // Tests let a certain allocation fail.
  if (until_failure_ > 0 && --until_failure_ == 0) {
    return OutOfMemory(bytes, owner, "this request was chosen to fail");
  }
  OwnerAccount* account = ledger_.Account(owner);
  if (!IsWithinLimits(AlignUp(bytes), *account)) {
    return LimitError(AlignUp(bytes), *account);
  }
  const uint64_t block_bytes = AlignUp(bytes, kBlockUnitBytes);
  Block* block = heap_.Find(block_bytes, options.stream);
  if (block == nullptr) {
    ASSIGN_OR_RETURN(block, Obtain(bytes, owner, options));
    // The account may have been forgotten while Obtain waited unlocked.
    account = ledger_.Account(owner);
  }
  heap_.Take(block, block_bytes, options.stream);
  Charge(block, bytes, account);
  return Allocation(this, block);
}

bool CachingAllocator::IsWithinLimit(uint64_t bytes) const {
  // Compares differences, because the sum could overflow.
  const uint64_t allocated = figures_[kAllPools].allocated_bytes.current;
  return bytes <= limit_bytes_ && allocated <= limit_bytes_ - bytes;
}

bool CachingAllocator::IsWithinLimits(uint64_t bytes,
                                      const OwnerAccount& account) const {
  return IsWithinLimit(bytes) && OwnerLedger::Allows(*account.holder, bytes);
}

absl::Status CachingAllocator::LimitError(uint64_t bytes,
                                          const OwnerAccount& account) {
  if (!IsWithinLimit(bytes)) {
    return OutOfMemory(bytes, account.owner,
                       "the device's limit would be passed");
  }
  const OwnerHolder& holder = *account.holder;
  return OutOfMemory(
      bytes, account.owner,
      absl::StrCat("the limit of ", holder.name, ", ", holder.limit_bytes,
                   " bytes of which it holds ", holder.bytes,
                   ", would be passed"));
}

absl::StatusOr<Block*> CachingAllocator::Obtain(
    uint64_t bytes, const Owner& owner, const AllocateOptions& options) {
  const uint64_t block_bytes = AlignUp(bytes, kBlockUnitBytes);
  // After each growth the search starts again, because the new pages may have
  // merged with free neighbours.
  while (true) {
    Settle();
    Block* block = heap_.Find(block_bytes, options.stream);
    if (block == nullptr && options.accept_wait) {
      block = heap_.FindPending(block_bytes);
    }
    if (block != nullptr) return block;
    const absl::Status grown =
        heap_.Grow(block_bytes, options.stream, MostMappedBytes());
    CountMapped();
    if (grown.ok()) continue;
    if (!absl::IsResourceExhausted(grown) && !absl::IsUnavailable(grown)) {
      return grown;
    }
    const absl::Status waited = WaitForRoom(block_bytes, grown);
    if (absl::IsResourceExhausted(waited)) {
      return OutOfMemory(bytes, owner, std::string(waited.message()));
    }
    RETURN_IF_ERROR(waited);
    // Repeats the check: other threads allocated while this one waited
    // unlocked.
    const OwnerAccount* const account = ledger_.Account(owner);
    if (!IsWithinLimits(AlignUp(bytes), *account)) {
      return LimitError(AlignUp(bytes), *account);
    }
  }
}

absl::Status CachingAllocator::WaitForRoom(uint64_t bytes,
                                           const absl::Status& grown) {
  // UNAVAILABLE means that the bound was the obstacle. Otherwise the device has
  // no more memory, so waiting must not count on mapping more.
  const uint64_t most =
      absl::IsUnavailable(grown) ? MostMappedBytes() : heap_.chunks().bytes();
  const std::optional<Moment> moment = heap_.MomentToWaitFor(bytes, most);
  if (!moment.has_value()) return grown;
  ++stream_waits_;
  // The wait may take as long as a training step; other threads go on.
  mutex_.Unlock();
  absl::Status status = timeline_->Wait(*moment);
  mutex_.Lock();
  return status;
}

uint64_t CachingAllocator::MostMappedBytes() const {
  return AlignUp(std::min(limit_bytes_, kMostCachedBytes), granularity_);
}

void CachingAllocator::Charge(Block* block, uint64_t requested,
                              OwnerAccount* account) {
  // The charge is what the plan counts, not the larger block that the heap
  // gives.
  const uint64_t charged = AlignUp(requested);
  block->requested_bytes = requested;
  block->account = account;
  ledger_.Add(account, charged);
  const auto count = [&](MemoryFigures& figures) {
    figures.allocation.Add(1);
    figures.active.Add(1);
    figures.allocated_bytes.Add(charged);
    figures.active_bytes.Add(block->bytes);
    figures.requested_bytes.Add(requested);
  };
  count(figures_[kAllPools]);
  count(figures_[PoolOf(block->bytes)]);
  if (history_.on()) history_.Record(EventOf(MemoryAction::kAlloc, *block));
}

void CachingAllocator::Discharge(const Block& block) {
  const uint64_t charged = AlignUp(block.requested_bytes);
  ledger_.Subtract(block.account, charged);
  for (const size_t pool : {kAllPools, PoolOf(block.bytes)}) {
    MemoryFigures& figures = figures_[pool];
    figures.allocation.Subtract(1);
    figures.allocated_bytes.Subtract(charged);
    figures.requested_bytes.Subtract(block.requested_bytes);
  }
}

bool CachingAllocator::TakeBack(Block* block, absl::Span<const Moment> uses) {
  Discharge(*block);
  // Return may merge the block away, so its size is read before.
  const uint64_t block_bytes = block->bytes;
  const bool completed = heap_.Return(block, uses);
  CountFree();
  // A block that other streams still use stays active until Settle frees it.
  if (!completed) return false;
  for (const size_t pool : {kAllPools, PoolOf(block_bytes)}) {
    figures_[pool].active.Subtract(1);
    figures_[pool].active_bytes.Subtract(block_bytes);
  }
  return true;
}

void CachingAllocator::Free(Block* block, absl::Span<const Moment> uses) {
  FastMutexLock lock(&mutex_);
  GPUPOOL_CHECK(block->state == BlockState::kUsed);
  if (history_.on()) {
    TakeBackRecorded(block, uses);
  } else {
    TakeBack(block, uses);
  }
}

void CachingAllocator::TakeBackRecorded(Block* block,
                                        absl::Span<const Moment> uses) {
  // The event is filled before TakeBack, which may merge the block away.
  MemoryEvent event = EventOf(MemoryAction::kFreeRequested, *block);
  history_.Record(event);
  if (!TakeBack(block, uses)) return;
  event.action = MemoryAction::kFreeCompleted;
  history_.Record(std::move(event));
}

absl::Status CachingAllocator::SetHolderLimit(const std::string& holder,
                                              uint64_t limit_bytes) {
  FastMutexLock lock(&mutex_);
  if (ledger_.SetLimit(holder, limit_bytes)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      holder, " holds ", ledger_.Find(holder)->bytes, " bytes of ", device_,
      "; a limit of ", limit_bytes, " is below that; free some first"));
}

uint64_t CachingAllocator::HolderBytes(const std::string& holder) const {
  FastMutexLock lock(&mutex_);
  const OwnerHolder* const found = ledger_.Find(holder);
  return found == nullptr ? 0 : found->bytes;
}

uint64_t CachingAllocator::HolderPeakBytes(const std::string& holder) const {
  FastMutexLock lock(&mutex_);
  const OwnerHolder* const found = ledger_.Find(holder);
  return found == nullptr ? 0 : found->peak_bytes;
}

void CachingAllocator::ForgetHolder(const std::string& holder) {
  FastMutexLock lock(&mutex_);
  ledger_.Forget(holder);
}

absl::Status CachingAllocator::SetFraction(double fraction) {
  if (!(fraction > 0 && fraction <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("a fraction of ", fraction, " of ", device_,
                     " makes no sense; it is above 0 and at most 1"));
  }
  FastMutexLock lock(&mutex_);
  const double bytes = static_cast<double>(full_limit_bytes_) * fraction;
  // A double cannot hold every limit, so the full one is not computed.
  limit_bytes_ =
      fraction == 1 ? full_limit_bytes_ : static_cast<uint64_t>(bytes);
  return absl::OkStatus();
}

uint64_t CachingAllocator::EmptyCache() {
  FastMutexLock lock(&mutex_);
  Settle();
  // Settle has freed the blocks whose uses have ended, so that their pages go,
  // too.
  const uint64_t bytes = heap_.Trim(heap_.chunks().bytes());
  CountMapped();
  return bytes;
}

void CachingAllocator::ResetPeak() {
  FastMutexLock lock(&mutex_);
  for (MemoryFigures& figures : figures_) figures.ResetPeaks();
  ledger_.ResetPeaks();
}

void CachingAllocator::FailNthAllocation(uint64_t n) {
  FastMutexLock lock(&mutex_);
  until_failure_ = n;
}

absl::Status CachingAllocator::RecordHistory(uint64_t max_entries) {
  if (max_entries > kMostHistoryEntries) {
    return absl::InvalidArgumentError(
        absl::StrCat("a history of ", max_entries, " events; at most ",
                     kMostHistoryEntries, " are kept"));
  }
  FastMutexLock lock(&mutex_);
  history_.Start(static_cast<size_t>(max_entries));
  return absl::OkStatus();
}

std::string CachingAllocator::Summary() const {
  return FormatSummary(device_, Statistics());
}

}  // namespace gpupool::engine
