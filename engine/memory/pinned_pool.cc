#include "engine/memory/pinned_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

constexpr uint64_t kMostPinnedBytes = uint64_t{1} << 62;

// Returns the size of the block for a request: a power of two.
uint64_t RoundUp(uint64_t bytes) {
  return std::bit_ceil(std::max(bytes, kSmallestPinnedBytes));
}

size_t ClassOf(uint64_t rounded) {
  return static_cast<size_t>(std::countr_zero(rounded));
}

}  // namespace

uint64_t PinnedPool::BytesOf(const Blocks& blocks) {
  uint64_t sum = 0;
  for (const auto& [data, bytes] : blocks) sum += bytes;
  return sum;
}

absl::StatusOr<void*> HostPinnedSource::Allocate(uint64_t bytes) {
  void* const data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data != MAP_FAILED) return data;
  return absl::ResourceExhaustedError(absl::StrCat(
      "the host gave no ", bytes, " bytes: ", std::strerror(errno)));
}

void HostPinnedSource::Free(void* data, uint64_t bytes) {
  GPUPOOL_CHECK(munmap(data, bytes) == 0);
}

PinnedBlock& PinnedBlock::operator=(PinnedBlock&& other) noexcept {
  if (this == &other) return *this;
  Reset();
  pool_ = std::exchange(other.pool_, nullptr);
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

void PinnedBlock::ResetAfter(absl::Span<const Moment> uses) {
  if (data_ != nullptr) pool_->Free(data_, bytes_, uses);
  pool_ = nullptr;
  data_ = nullptr;
  bytes_ = 0;
}

PinnedPool::PinnedPool(uint64_t cap_bytes, PinnedSource* source,
                       const TimelineSource* timeline)
    : source_(source), timeline_(timeline) {
  totals_.cap_bytes = cap_bytes;
}

PinnedPool::~PinnedPool() {
  Blocks blocks;
  {
    FastMutexLock lock(&mutex_);
    GPUPOOL_CHECK(totals_.allocation.current == 0);
    for (SizeClass& of_size : classes_) {
      for (Leaving& leaving : of_size.leaving) {
        of_size.idle.push_back(leaving.data);
      }
      of_size.leaving.clear();
    }
    blocks = TakeIdle(totals_.reserved_bytes.current);
  }
  Unpin(blocks, BytesOf(blocks));
}

absl::StatusOr<PinnedBlock> PinnedPool::Allocate(uint64_t bytes) {
  if (bytes == 0) return PinnedBlock();
  Blocks given_back;
  // Bytes of `given_back` that the new block does not replace. They stay
  // counted until they are unpinned, so other threads do not pass the cap
  // meanwhile.
  uint64_t surplus = 0;
  uint64_t rounded = 0;
  bool fits = false;
  {
    FastMutexLock lock(&mutex_);
    if (bytes > kMostPinnedBytes)
      return Refuse(bytes, "no machine has as many");
    rounded = RoundUp(bytes);
    SizeClass& of_size = classes_[ClassOf(rounded)];
    // Streams are queried only if there is no idle block.
    if (of_size.idle.empty()) Settle(of_size);
    if (!of_size.idle.empty()) {
      std::byte* const data = of_size.idle.back();
      of_size.idle.pop_back();
      Hold(bytes, rounded);
      return PinnedBlock(this, data, bytes);
    }
    const uint64_t cap = totals_.cap_bytes;
    if (rounded > cap) return Refuse(bytes, "the cap would be passed");
    const uint64_t reserved = totals_.reserved_bytes.current;
    if (reserved > cap - rounded) {
      for (SizeClass& other : classes_) Settle(other);
      given_back = TakeIdle(reserved - (cap - rounded));
    }
    // The freed bytes first make room for the new block; the rest is surplus.
    const uint64_t freed = BytesOf(given_back);
    fits = reserved - freed <= cap - rounded;
    const uint64_t replaced = fits ? std::min(freed, rounded) : 0;
    surplus = freed - replaced;
    // Counts the block before it is pinned, so that two threads without the
    // lock cannot both take the last bytes below the cap.
    if (fits) {
      totals_.reserved_bytes.Subtract(replaced);
      totals_.reserved_bytes.Add(rounded);
      totals_.segment.Add(1);
      Hold(bytes, rounded);
    }
  }
  // Pinning and unpinning are slow, so both happen without the lock.
  Unpin(given_back, surplus);
  if (fits) return PinFor(bytes, rounded);
  FastMutexLock lock(&mutex_);
  return Refuse(bytes, "the cap would be passed");
}

absl::StatusOr<PinnedBlock> PinnedPool::PinFor(uint64_t bytes,
                                               uint64_t rounded) {
  absl::StatusOr<std::byte*> data = Pin(rounded);
  if (data.ok()) return PinnedBlock(this, *data, bytes);
  // The source refused: takes back everything that Allocate has counted.
  FastMutexLock lock(&mutex_);
  totals_.segment.Subtract(1);
  totals_.reserved_bytes.Subtract(rounded);
  totals_.allocation.Subtract(1);
  totals_.requested_bytes.Subtract(bytes);
  totals_.allocated_bytes.Subtract(rounded);
  if (!absl::IsResourceExhausted(data.status())) return data.status();
  return Refuse(bytes, std::string(data.status().message()));
}

void PinnedPool::Hold(uint64_t requested, uint64_t bytes) {
  totals_.allocation.Add(1);
  totals_.requested_bytes.Add(requested);
  totals_.allocated_bytes.Add(bytes);
}

void PinnedPool::Free(std::byte* data, uint64_t bytes,
                      absl::Span<const Moment> uses) {
  const uint64_t rounded = RoundUp(bytes);
  FastMutexLock lock(&mutex_);
  totals_.allocation.Subtract(1);
  totals_.requested_bytes.Subtract(bytes);
  totals_.allocated_bytes.Subtract(rounded);
  SizeClass& of_size = classes_[ClassOf(rounded)];
  if (HasPassed(uses)) {
    of_size.idle.push_back(data);
    return;
  }
  of_size.leaving.push_back({data, {uses.begin(), uses.end()}});
}

bool PinnedPool::HasPassed(absl::Span<const Moment> uses) const {
  if (timeline_ == nullptr) return true;
  return std::all_of(uses.begin(), uses.end(), [this](const Moment& use) {
    return timeline_->Completed(use.stream) >= use.counter;
  });
}

void PinnedPool::Settle(SizeClass& blocks) {
  for (size_t i = 0; i < blocks.leaving.size();) {
    if (!HasPassed(blocks.leaving[i].uses)) {
      ++i;
      continue;
    }
    blocks.idle.push_back(blocks.leaving[i].data);
    std::swap(blocks.leaving[i], blocks.leaving.back());
    blocks.leaving.pop_back();
  }
}

PinnedPool::Blocks PinnedPool::TakeIdle(uint64_t bytes) {
  Blocks taken;
  uint64_t sum = 0;
  for (size_t size = kClasses; size-- > 0 && sum < bytes;) {
    std::vector<std::byte*>& idle = classes_[size].idle;
    while (!idle.empty() && sum < bytes) {
      taken.emplace_back(idle.back(), uint64_t{1} << size);
      idle.pop_back();
      sum += uint64_t{1} << size;
    }
  }
  return taken;
}

absl::StatusOr<std::byte*> PinnedPool::Pin(uint64_t bytes) {
  const absl::Time start = absl::Now();
  absl::StatusOr<void*> data = source_->Allocate(bytes);
  const absl::Duration took = absl::Now() - start;
  FastMutexLock lock(&mutex_);
  totals_.allocate_time += took;
  RETURN_IF_ERROR(data.status());
  return static_cast<std::byte*>(*data);
}

void PinnedPool::Unpin(const Blocks& blocks, uint64_t counted_bytes) {
  if (blocks.empty()) return;
  const absl::Time start = absl::Now();
  for (const auto& [data, bytes] : blocks) source_->Free(data, bytes);
  const absl::Duration took = absl::Now() - start;
  FastMutexLock lock(&mutex_);
  totals_.free_time += took;
  totals_.segment.Subtract(blocks.size());
  totals_.reserved_bytes.Subtract(counted_bytes);
}

uint64_t PinnedPool::EmptyCache() {
  Blocks blocks;
  {
    FastMutexLock lock(&mutex_);
    for (SizeClass& of_size : classes_) Settle(of_size);
    blocks = TakeIdle(totals_.reserved_bytes.current);
  }
  const uint64_t bytes = BytesOf(blocks);
  Unpin(blocks, bytes);
  return bytes;
}

PinnedStatistics PinnedPool::Statistics() const {
  FastMutexLock lock(&mutex_);
  return totals_;
}

absl::Status PinnedPool::Refuse(uint64_t bytes, const std::string& reason) {
  ++totals_.refused;
  return absl::ResourceExhaustedError(absl::StrCat(
      "no ", bytes, " bytes of pinned memory: ", reason, ". Cap ",
      totals_.cap_bytes, ", pinned ", totals_.reserved_bytes.current, ", held ",
      totals_.allocated_bytes.current,
      " bytes. Raise the cap or use smaller batches."));
}

}  // namespace gpupool::engine
