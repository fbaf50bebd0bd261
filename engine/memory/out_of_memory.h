// The error of a failed allocation. It tells in numbers what was asked, what
// there is, who holds it, and what would help.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/memory/owner_ledger.h"
#include "engine/memory/statistics.h"

namespace gpupool::engine {

struct OutOfMemoryFacts {
  std::string device;
  std::string owner;  // label of the requester
  uint64_t bytes = 0;
  std::string reason;  // "the device's limit would be passed"
  // The most bytes that the same owner could have now.
  uint64_t room_bytes = 0;
  // The holder whose own limit is too small; empty: the device's limit is.
  std::string limited_holder;
  MemoryStatistics statistics;
  std::vector<OwnerHolder> holders;  // largest first
};

// Returns RESOURCE_EXHAUSTED with the text.
absl::Status OutOfMemoryError(const OutOfMemoryFacts& facts);

}  // namespace gpupool::engine
