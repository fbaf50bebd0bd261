#include "server/api/inference/memory_return.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/time/clock.h"

namespace gpupool::server {
namespace {

// Returns the bytes of this process in memory, or 0 if the system does not
// tell.
uint64_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident_pages = 0;
  if (!(statm >> size >> resident_pages)) return 0;
  return resident_pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

// Returns the bytes in memory that the allocator has not given out, and a few
// that are not its.
uint64_t KeptBytes() {
  const struct mallinfo2 info = ::mallinfo2();
  const uint64_t given_out = info.uordblks + info.hblkhd;
  const uint64_t resident = ResidentBytes();
  return resident - std::min(resident, given_out);
}

MemoryReturnOptions WithAllocator(MemoryReturnOptions options) {
  if (!options.give_back) options.give_back = [] { ::malloc_trim(0); };
  if (!options.kept) options.kept = &KeptBytes;
  return options;
}

}  // namespace

bool QuietTime::ShouldCount(uint64_t used, uint64_t asked) {
  const bool quiet = used < kQuietBytes && asked - last_asked_ < kQuietBytes;
  last_asked_ = asked;
  if (!quiet) {
    quiet_looks_ = 0;
    return false;
  }
  return quiet_looks_++ % kBetweenCounts == 0;
}

bool QuietTime::IsDue(uint64_t kept) {
  least_kept_ = std::min(least_kept_, kept);
  return kept - least_kept_ >= kWorthBytes;
}

MemoryReturn::MemoryReturn(const BytesInFlight* bytes,
                           MemoryReturnOptions options)
    : bytes_(bytes), options_(WithAllocator(std::move(options))) {
  timer_.CallAt(absl::Now() + options_.interval, [this] { Look(); });
}

void MemoryReturn::Look() {
  if (quiet_.ShouldCount(bytes_->used(), bytes_->asked()) &&
      quiet_.IsDue(options_.kept())) {
    options_.give_back();
    quiet_.GaveBack(options_.kept());
  }
  timer_.CallAt(absl::Now() + options_.interval, [this] { Look(); });
}

}  // namespace gpupool::server
