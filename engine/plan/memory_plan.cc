#include "engine/plan/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "engine/base/align.h"

namespace gpupool::engine {
namespace {

std::vector<size_t> LargestFirst(absl::Span<const PlanItem> items) {
  std::vector<size_t> order(items.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return items[a].bytes > items[b].bytes;
  });
  return order;
}

struct Placed {
  uint64_t begin;
  uint64_t end;
  Lifetime lifetime;
};

// `placed` is in rising order of begin.
uint64_t LowestFit(const std::vector<Placed>& placed, uint64_t bytes,
                   const Lifetime& lifetime) {
  uint64_t offset = 0;
  for (const Placed& other : placed) {
    if (other.begin >= offset + bytes) break;
    if (other.end > offset && other.lifetime.Overlaps(lifetime)) {
      offset = other.end;
    }
  }
  return offset;
}

}  // namespace

MemoryPlan PlanMemory(absl::Span<const PlanItem> items) {
  MemoryPlan plan;
  plan.offsets.assign(items.size(), 0);
  std::vector<Placed> placed;
  placed.reserve(items.size());
  for (const size_t i : LargestFirst(items)) {
    const uint64_t bytes = AlignUp(items[i].bytes);
    if (bytes == 0) continue;
    const uint64_t offset = LowestFit(placed, bytes, items[i].lifetime);
    plan.offsets[i] = offset;
    plan.arena_bytes = std::max(plan.arena_bytes, offset + bytes);
    const auto at = std::upper_bound(
        placed.begin(), placed.end(), offset,
        [](uint64_t begin, const Placed& p) { return begin < p.begin; });
    placed.insert(at, {offset, offset + bytes, items[i].lifetime});
  }
  return plan;
}

PeakMoment FindPeak(absl::Span<const PlanItem> items) {
  std::map<int, int64_t> changes;
  for (const PlanItem& item : items) {
    const auto bytes = static_cast<int64_t>(AlignUp(item.bytes));
    changes[item.lifetime.first] += bytes;
    changes[item.lifetime.last + 1] -= bytes;
  }
  PeakMoment peak;
  int64_t live = 0;
  for (const auto& [position, change] : changes) {
    live += change;
    if (static_cast<uint64_t>(live) > peak.bytes) {
      peak = {position, static_cast<uint64_t>(live)};
    }
  }
  return peak;
}

}  // namespace gpupool::engine
