// How much memory programs will take beside the arena and the weights when
// more of them are made than were planned. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/plan/report.h"

namespace gpupool::engine {

// A planned program and the sizes that it is for.
struct SizedBytes {
  std::vector<int64_t> sizes;
  ProgramBytes bytes;
};

// Bytes of residents of any `count` programs: what programs of different sizes
// share counts once, and of the rest each program takes as much as the planned
// one that takes most. Where one size was planned, what is made of weights is
// taken as shared.
uint64_t ResidentBudget(const std::vector<SizedBytes>& planned, uint64_t count);

}  // namespace gpupool::engine
