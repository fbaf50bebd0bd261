#include "tests/engine/standin/protected_pages.h"

#include <iterator>

#include "engine/base/check.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine::standin {

absl::StatusOr<uint64_t> ProtectedPages::ReserveRange(uint64_t bytes) {
  ASSIGN_OR_RETURN(const uint64_t address, host_.ReserveRange(2 * bytes));
  absl::MutexLock lock(&mutex_);
  ranges_[address] = bytes;
  return address;
}

absl::Status ProtectedPages::FreeRange(const PageRange& range) {
  {
    absl::MutexLock lock(&mutex_);
    GPUPOOL_CHECK(ranges_.erase(range.address) == 1);
  }
  return host_.FreeRange({range.address, 2 * range.bytes});
}

absl::Status ProtectedPages::Map(const PageRange& at, ChunkHandle chunk) {
  return host_.Map(Twin(at), chunk);
}

absl::Status ProtectedPages::Unmap(const PageRange& at) {
  return host_.Unmap(Twin(at));
}

std::byte* ProtectedPages::Real(const std::byte* address) const {
  if (address == nullptr) return nullptr;
  const PageRange twin = Twin({reinterpret_cast<uint64_t>(address), 0});
  return reinterpret_cast<std::byte*>(twin.address);
}

PageRange ProtectedPages::Twin(const PageRange& range) const {
  absl::MutexLock lock(&mutex_);
  auto after = ranges_.upper_bound(range.address);
  GPUPOOL_CHECK(after != ranges_.begin());
  const auto& [begin, bytes] = *std::prev(after);
  GPUPOOL_CHECK(range.end() <= begin + bytes);
  return {range.address + bytes, range.bytes};
}

}  // namespace gpupool::engine::standin
