#include "tests/engine/memory/simulated_driver.h"

#include <sys/mman.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/align.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {

SimulatedDriver::SimulatedDriver(SimulatedDriverOptions options)
    : options_(std::move(options)) {}

SimulatedDriver::~SimulatedDriver() {
  for (const auto& [address, whole] : real_) {
    munmap(reinterpret_cast<void*>(whole.first), whole.second);
  }
}

void SimulatedDriver::FailCall(uint64_t call, bool fault) {
  failing_call_ = call;
  fault_ = fault;
}

uint64_t SimulatedDriver::open_objects() const {
  return ranges_.size() + chunks_.size() + mappings_.size();
}

absl::Status SimulatedDriver::CountCall() {
  if (++calls_ != failing_call_) return absl::OkStatus();
  return fault_ ? absl::InternalError("the simulated device is broken")
                : absl::ResourceExhaustedError("the simulated device is full");
}

absl::Status SimulatedDriver::Violation(const std::string& rule) {
  violations_.push_back(absl::StrCat("call ", calls_, ": ", rule));
  return absl::InvalidArgumentError(violations_.back());
}

bool SimulatedDriver::IsReserved(const PageRange& range) const {
  auto found = ranges_.upper_bound(range.address);
  if (found == ranges_.begin()) return false;
  --found;
  return range.end() <= found->first + found->second;
}

bool SimulatedDriver::IsMapped(const PageRange& range) const {
  uint64_t at = range.address;
  while (at < range.end()) {
    auto found = mappings_.upper_bound(at);
    if (found == mappings_.begin()) return false;
    --found;
    const uint64_t end = found->first + chunks_.at(found->second).bytes;
    if (end <= at) return false;
    at = end;
  }
  return true;
}

absl::StatusOr<uint64_t> SimulatedDriver::ReserveRange(uint64_t bytes) {
  RETURN_IF_ERROR(CountCall());
  if (bytes == 0 || !IsAligned(bytes)) {
    return Violation("a range is a multiple of the granularity");
  }
  if (bytes > options_.most_range_bytes) {
    return absl::ResourceExhaustedError("no addresses are left");
  }
  uint64_t address = next_address_;
  if (options_.backed) {
    const uint64_t whole = bytes + granularity();
    void* const data = mmap(nullptr, whole, PROT_NONE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    GPUPOOL_CHECK(data != MAP_FAILED);
    const auto begin = reinterpret_cast<uint64_t>(data);
    address = AlignUp(begin, granularity());
    real_[address] = {begin, whole};
  } else {
    next_address_ += bytes + granularity();
  }
  ranges_[address] = bytes;
  return address;
}

absl::Status SimulatedDriver::FreeRange(const PageRange& range) {
  RETURN_IF_ERROR(CountCall());
  const auto found = ranges_.find(range.address);
  if (found == ranges_.end() || found->second != range.bytes) {
    return Violation("only whole ranges are freed");
  }
  const auto mapping = mappings_.lower_bound(range.address);
  if (mapping != mappings_.end() && mapping->first < range.end()) {
    return Violation("a range is freed after its chunks are unmapped");
  }
  ranges_.erase(found);
  return absl::OkStatus();
}

absl::StatusOr<ChunkHandle> SimulatedDriver::CreateChunk(uint64_t bytes) {
  RETURN_IF_ERROR(CountCall());
  const auto& sizes = options_.chunk_sizes;
  if (std::find(sizes.begin(), sizes.end(), bytes) == sizes.end()) {
    return Violation("a chunk has one of the given sizes");
  }
  if (live_bytes_ + bytes > options_.capacity_bytes) {
    return absl::ResourceExhaustedError("the simulated device is full");
  }
  live_bytes_ += bytes;
  peak_bytes_ = std::max(peak_bytes_, live_bytes_);
  chunks_[++last_] = {bytes, 0};
  return last_;
}

absl::Status SimulatedDriver::ReleaseChunk(ChunkHandle chunk) {
  RETURN_IF_ERROR(CountCall());
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) return Violation("a live chunk is released");
  if (found->second.mapped_at != 0) {
    return Violation("a chunk is released after it is unmapped");
  }
  live_bytes_ -= found->second.bytes;
  chunks_.erase(found);
  return absl::OkStatus();
}

absl::Status SimulatedDriver::Map(const PageRange& at, ChunkHandle chunk) {
  RETURN_IF_ERROR(CountCall());
  const auto found = chunks_.find(chunk);
  if (found == chunks_.end()) return Violation("a live chunk is mapped");
  if (!IsAligned(at.address)) return Violation("a chunk is mapped aligned");
  if (at.bytes != found->second.bytes) {
    return Violation("a chunk is mapped as a whole");
  }
  if (found->second.mapped_at != 0) return Violation("a chunk is mapped once");
  if (!IsReserved(at)) return Violation("a chunk is mapped in a range");
  for (uint64_t page = at.address; page < at.end(); page += granularity()) {
    if (IsMapped({page, 1})) return Violation("an address has one chunk");
  }
  mappings_[at.address] = chunk;
  found->second.mapped_at = at.address;
  if (options_.backed) {
    GPUPOOL_CHECK(mprotect(reinterpret_cast<void*>(at.address), at.bytes,
                           PROT_READ | PROT_WRITE) == 0);
  }
  return absl::OkStatus();
}

absl::Status SimulatedDriver::Unmap(const PageRange& at) {
  RETURN_IF_ERROR(CountCall());
  const auto found = mappings_.find(at.address);
  if (found == mappings_.end() || chunks_[found->second].bytes != at.bytes) {
    return Violation("a mapping is unmapped as a whole");
  }
  chunks_[found->second].mapped_at = 0;
  mappings_.erase(found);
  if (options_.backed) {
    void* const data = reinterpret_cast<void*>(at.address);
    GPUPOOL_CHECK(mprotect(data, at.bytes, PROT_NONE) == 0);
    madvise(data, at.bytes, MADV_DONTNEED);
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
