// What an allocation that fails says: what was asked, what there is, who
// holds it, and what would help, in numbers.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/memory/owner_ledger.h"
#include "engine/memory/statistics.h"

namespace gpupool::engine {

struct OutOfMemoryFacts {
  std::string device;
  std::string owner;  // label of who asked
  uint64_t bytes = 0;
  std::string reason;  // "the device's limit would be passed"
  // What the same owner could have now.
  uint64_t room_bytes = 0;
  // The holder's own limit is what is too small; empty: it is the device's.
  std::string limited_holder;
  MemoryStatistics statistics;
  std::vector<OwnerHolder> holders;  // largest first
};

// ResourceExhausted with the text.
absl::Status OutOfMemoryError(const OutOfMemoryFacts& facts);

}  // namespace gpupool::engine
