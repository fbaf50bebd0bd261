#include "server/api/inference/memory_return.h"

#include <malloc.h>

#include <utility>

#include "absl/time/clock.h"

namespace gpupool::server {
namespace {

MemoryReturnOptions WithAllocator(MemoryReturnOptions options) {
  if (!options.give_back) options.give_back = [] { ::malloc_trim(0); };
  return options;
}

}  // namespace

bool QuietTime::IsDue(uint64_t used, uint64_t asked) {
  const bool quiet = used < kQuietBytes && asked - last_asked_ < kQuietBytes;
  last_asked_ = asked;
  if (!quiet || asked - returned_at_ < kWorthBytes) return false;
  returned_at_ = asked;
  return true;
}

MemoryReturn::MemoryReturn(const BytesInFlight* bytes,
                           MemoryReturnOptions options)
    : bytes_(bytes), options_(WithAllocator(std::move(options))) {
  timer_.CallAt(absl::Now() + options_.interval, [this] { Look(); });
}

void MemoryReturn::Look() {
  if (quiet_.IsDue(bytes_->used(), bytes_->asked())) options_.give_back();
  timer_.CallAt(absl::Now() + options_.interval, [this] { Look(); });
}

}  // namespace gpupool::server
