// Plans offsets in one arena for items with known sizes and lifetimes. The
// static plan replaces allocation during a run. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/plan/liveness.h"

namespace gpupool::engine {

// The most bytes of a program's items or of a block of weights. No device has
// as many, and sums of a few such numbers fit 64 bits.
inline constexpr uint64_t kMaxPlannedBytes = uint64_t{1} << 60;

struct PlanItem {
  uint64_t bytes = 0;  // 0 takes no space
  Lifetime lifetime;
};

struct MemoryPlan {
  std::vector<uint64_t> offsets;  // by item; multiples of the alignment
  uint64_t arena_bytes = 0;       // a multiple of the alignment
};

// Plans greedily by size: the largest item first, each at the lowest offset
// that is free during its lifetime (Pisarchyk and Lee, "Efficient Memory
// Management for Deep Neural Net Inference", 2020, arXiv 2001.03288). If the
// arena is larger than the lower bound, it then tries, within a fixed number of
// comparisons:
// - other orders, and the tightest or the highest gap instead of the lowest,
// - orders in which the items at the top are placed earlier, some of them in
//   other gaps.
//
// The smallest arena wins. Items with disjoint lifetimes share bytes. The same
// items give the same plan. All items together take at most kMaxPlannedBytes.
MemoryPlan PlanMemory(absl::Span<const PlanItem> items);

// The position at which most bytes live, and these bytes, rounded to the
// alignment. No plan can need fewer.
struct PeakMoment {
  int position = 0;
  uint64_t bytes = 0;
};
PeakMoment FindPeak(absl::Span<const PlanItem> items);

}  // namespace gpupool::engine
