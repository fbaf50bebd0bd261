#include "engine/plan/check_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

// The items that are alive at the moment, by offset.
using Alive = std::map<uint64_t, size_t>;

std::string Describe(absl::Span<const PlanItem> items, const MemoryPlan& plan,
                     size_t i) {
  return absl::StrCat("item ", i, " at [", plan.offsets[i], ", ",
                      plan.offsets[i] + items[i].bytes, ") alive in [",
                      items[i].lifetime.first, ", ", items[i].lifetime.last,
                      "]");
}

absl::Status CheckPlacement(absl::Span<const PlanItem> items,
                            const MemoryPlan& plan, size_t i) {
  const bool aligned = plan.offsets[i] % kAlignmentBytes == 0;
  const bool inside = items[i].bytes <= plan.arena_bytes &&
                      plan.offsets[i] <= plan.arena_bytes - items[i].bytes;
  const bool ordered = items[i].lifetime.first <= items[i].lifetime.last;
  if (aligned && inside && ordered) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("memory plan: ", Describe(items, plan, i),
                   !aligned   ? " is not aligned"
                   : !ordered ? " ends before it begins"
                              : " leaves the arena of ",
                   aligned && ordered ? absl::StrCat(plan.arena_bytes) : ""));
}

absl::Status Enter(absl::Span<const PlanItem> items, const MemoryPlan& plan,
                   size_t i, Alive& alive) {
  const uint64_t end = plan.offsets[i] + items[i].bytes;
  const auto [at, added] = alive.emplace(plan.offsets[i], i);
  size_t clash = at->second;
  // Live items do not overlap, so only the two neighbours can clash.
  if (added) {
    const auto next = std::next(at);
    if (next != alive.end() && next->first < end) {
      clash = next->second;
    } else if (at != alive.begin()) {
      const size_t previous = std::prev(at)->second;
      const uint64_t previous_end =
          plan.offsets[previous] + items[previous].bytes;
      if (previous_end > plan.offsets[i]) clash = previous;
    }
  }
  if (clash == i) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("memory plan: ", Describe(items, plan, i), " overlaps ",
                   Describe(items, plan, clash)));
}

}  // namespace

absl::Status CheckPlan(absl::Span<const PlanItem> items,
                       const MemoryPlan& plan) {
  if (plan.offsets.size() != items.size()) {
    return absl::InternalError("memory plan: items and offsets differ");
  }
  std::vector<size_t> starts;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].bytes == 0) continue;
    RETURN_IF_ERROR(CheckPlacement(items, plan, i));
    starts.push_back(i);
  }
  std::vector<size_t> ends = starts;
  std::sort(starts.begin(), starts.end(), [&](size_t a, size_t b) {
    return items[a].lifetime.first < items[b].lifetime.first;
  });
  std::sort(ends.begin(), ends.end(), [&](size_t a, size_t b) {
    return items[a].lifetime.last < items[b].lifetime.last;
  });
  // Sweeps over the beginnings; items that have ended are removed before.
  Alive alive;
  size_t ended = 0;
  for (const size_t i : starts) {
    while (items[ends[ended]].lifetime.last < items[i].lifetime.first) {
      alive.erase(plan.offsets[ends[ended++]]);
    }
    RETURN_IF_ERROR(Enter(items, plan, i, alive));
  }
  return absl::OkStatus();
}

}  // namespace gpupool::engine
