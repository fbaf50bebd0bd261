// Offsets in one arena for things with known sizes and lifetimes: the static
// plan that replaces allocation during a run. Pure.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "engine/plan/liveness.h"

namespace gpupool::engine {

struct PlanItem {
  uint64_t bytes = 0;  // 0 takes no room
  Lifetime lifetime;
};

struct MemoryPlan {
  std::vector<uint64_t> offsets;  // one per item, multiples of the alignment
  uint64_t arena_bytes = 0;       // a multiple of the alignment
};

// Greedy by size: the largest item first, each at the lowest offset where
// nothing that lives at the same time is in the way (Pisarchyk and Lee,
// "Efficient Memory Management for Deep Neural Net Inference", 2020,
// arXiv 2001.03288). Where that misses the lower bound, other orders, the
// tightest gap and the highest one are tried, then the items that stick out
// are placed earlier and some elsewhere, as long as the work stays within a
// fixed number of comparisons; the smallest arena wins. Items with disjoint
// lifetimes share bytes. The same items give the same plan.
MemoryPlan PlanMemory(absl::Span<const PlanItem> items);

// The most bytes, rounded to the alignment, that live at one time: no plan
// can need less.
struct PeakMoment {
  int position = 0;
  uint64_t bytes = 0;
};
PeakMoment FindPeak(absl::Span<const PlanItem> items);

}  // namespace gpupool::engine
