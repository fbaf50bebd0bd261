// The memory that programs will take in addition to arena and weights, if more
// of them are made than were planned. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/report.h"

namespace gpupool::engine {

// A planned program and its sizes.
struct SizedBytes {
  std::vector<int64_t> sizes;
  ProgramBytes bytes;
};

// Returns the bytes of residents of any `count` programs. Residents that
// programs of different sizes share count once. Of the rest each program is
// taken to need as much as the largest planned one. If only one size was
// planned, residents made of weights count as shared.
uint64_t ResidentBudget(const std::vector<SizedBytes>& planned, uint64_t count);

}  // namespace gpupool::engine
