#include "engine/memory/host_page_source.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "engine/base/align.h"

namespace gpupool::engine {
namespace {

// The size of a huge page on x86, and the granularity of CUDA devices.
constexpr uint64_t kPageBytes = 2 << 20;
// A chunk has no physical handle on the host; the larger size only saves calls.
constexpr uint64_t kChunkSizes[] = {32 << 20, kPageBytes};
// The largest request for addresses: user space has 47 bits of them.
constexpr uint64_t kMostPageBytes = uint64_t{1} << 46;

void* Pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

// Returns RESOURCE_EXHAUSTED when memory ran out, INTERNAL otherwise.
absl::Status Failed(absl::string_view what, uint64_t bytes) {
  const std::string text = absl::StrCat("the host did not ", what, " ", bytes,
                                        " bytes: ", std::strerror(errno));
  return errno == ENOMEM || errno == EAGAIN ? absl::ResourceExhaustedError(text)
                                            : absl::InternalError(text);
}

}  // namespace

uint64_t HostPageSource::granularity() const { return kPageBytes; }

absl::Span<const uint64_t> HostPageSource::chunk_sizes() const {
  return kChunkSizes;
}

absl::StatusOr<uint64_t> HostPageSource::ReserveRange(uint64_t bytes) {
  if (bytes > kMostPageBytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the host has no ", bytes, " addresses"));
  }
  // Reserves one page more than asked, to align the beginning.
  const uint64_t whole = bytes + kPageBytes;
  void* const data = mmap(nullptr, whole, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return Failed("reserve", bytes);
  const auto begin = reinterpret_cast<uint64_t>(data);
  const uint64_t aligned = AlignUp(begin, kPageBytes);
  if (aligned > begin) munmap(data, aligned - begin);
  const uint64_t rest = begin + whole - (aligned + bytes);
  if (rest > 0) munmap(Pointer(aligned + bytes), rest);
  return aligned;
}

absl::Status HostPageSource::FreeRange(const PageRange& range) {
  if (munmap(Pointer(range.address), range.bytes) == 0) return absl::OkStatus();
  return Failed("take back", range.bytes);
}

absl::StatusOr<ChunkHandle> HostPageSource::CreateChunk(uint64_t) {
  return ++last_;
}

absl::Status HostPageSource::ReleaseChunk(ChunkHandle) {
  return absl::OkStatus();
}

absl::Status HostPageSource::Map(const PageRange& at, ChunkHandle) {
  if (mprotect(Pointer(at.address), at.bytes, PROT_READ | PROT_WRITE) != 0) {
    return Failed("give", at.bytes);
  }
  // Huge pages save most of the faults when memory is first touched, and most
  // misses of addresses later. A kernel without them refuses, which only costs
  // time.
  madvise(Pointer(at.address), at.bytes, MADV_HUGEPAGE);
  return absl::OkStatus();
}

absl::Status HostPageSource::Unmap(const PageRange& at) {
  // Replaces the mapping by a fresh one, which drops the pages and their claim
  // on the system's memory in one step.
  void* const data =
      mmap(Pointer(at.address), at.bytes, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  if (data != MAP_FAILED) return absl::OkStatus();
  return Failed("take back", at.bytes);
}

}  // namespace gpupool::engine
