// Checks a memory plan independently of how it was made. Pure.
#pragma once

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/plan/memory_plan.h"

namespace gpupool::engine {

// Returns INTERNAL, naming the items and their bytes, unless
// - every offset is aligned,
// - every item is inside the arena, and
// - no two items that live at the same time overlap.
absl::Status CheckPlan(absl::Span<const PlanItem> items,
                       const MemoryPlan& plan);

}  // namespace gpupool::engine
