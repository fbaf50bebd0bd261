#include "server/api/inference/memory_return.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <utility>

#include "absl/time/clock.h"

namespace gpupool::server {
namespace {

// Returns the resident bytes of this process, or 0 if the system does not tell.
uint64_t ResidentNow() {
  std::ifstream statm("/proc/self/statm");
  uint64_t size = 0;
  uint64_t resident_pages = 0;
  if (!(statm >> size >> resident_pages)) return 0;
  return resident_pages * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

MemoryReturnOptions WithAllocator(MemoryReturnOptions options) {
  if (!options.give_back) options.give_back = [] { ::malloc_trim(0); };
  if (!options.resident) options.resident = &ResidentNow;
  return options;
}

}  // namespace

bool QuietTime::IsDue(const Look& look) {
  const bool quiet =
      look.used < kQuietBytes && look.asked - last_asked_ < kQuietBytes;
  last_asked_ = look.asked;
  least_resident_ = std::min(least_resident_, look.resident);
  return quiet && look.resident - least_resident_ >= kWorthBytes;
}

MemoryReturn::MemoryReturn(const BytesInFlight* bytes,
                           MemoryReturnOptions options)
    : bytes_(bytes), options_(WithAllocator(std::move(options))) {
  timer_.CallAt(absl::Now() + options_.interval, [this] { Look(); });
}

void MemoryReturn::Look() {
  if (quiet_.IsDue({bytes_->used(), bytes_->asked(), options_.resident()})) {
    options_.give_back();
    quiet_.GaveBack(options_.resident());
  }
  timer_.CallAt(absl::Now() + options_.interval, [this] { Look(); });
}

}  // namespace gpupool::server
