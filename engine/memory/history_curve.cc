#include "engine/memory/history_curve.h"

#include <algorithm>

#include "engine/base/align.h"
#include "engine/base/check.h"

namespace gpupool::engine {
namespace {

struct CurveBytes {
  uint64_t allocated = 0;
  uint64_t reserved = 0;
};

// Returns the bytes at the time of the snapshot.
CurveBytes BytesNow(const MemorySnapshot& snapshot) {
  CurveBytes now;
  for (const SegmentFacts& segment : snapshot.segments) {
    now.reserved += segment.bytes;
    for (const BlockFacts& block : segment.blocks) {
      if (block.free || block.pending_free) continue;
      now.allocated += AlignUp(block.requested_bytes);
    }
  }
  return now;
}

// Returns the change by the event. Numbers below 0 wrap around; sums are right.
CurveBytes ChangeBy(const MemoryEvent& event) {
  switch (event.action) {
    case MemoryAction::kAlloc:
      return {AlignUp(event.bytes), 0};
    case MemoryAction::kFreeRequested:
      return {uint64_t{0} - AlignUp(event.bytes), 0};
    case MemoryAction::kSegmentMap:
      return {0, event.bytes};
    case MemoryAction::kSegmentUnmap:
      return {0, uint64_t{0} - event.bytes};
    case MemoryAction::kFreeCompleted:
    case MemoryAction::kOutOfMemory:
      return {};
  }
  return {};
}

}  // namespace

std::vector<CurvePoint> HistoryCurve(const MemorySnapshot& snapshot,
                                     size_t most_points) {
  GPUPOOL_CHECK(most_points >= 2);
  const std::vector<MemoryEvent>& events = snapshot.events;
  if (events.empty()) return {};
  CurveBytes bytes = BytesNow(snapshot);
  for (const MemoryEvent& event : events) {
    const CurveBytes change = ChangeBy(event);
    bytes.allocated -= change.allocated;
    bytes.reserved -= change.reserved;
  }
  std::vector<CurvePoint> curve = {
      {events.front().time_us, bytes.allocated, bytes.reserved}};
  const size_t intervals = most_points - 1;
  const size_t size = (events.size() + intervals - 1) / intervals;
  for (size_t begin = 0; begin < events.size(); begin += size) {
    const size_t end = std::min(begin + size, events.size());
    CurvePoint point{.end_time_us = events[end - 1].time_us};
    for (size_t i = begin; i < end; ++i) {
      const CurveBytes change = ChangeBy(events[i]);
      bytes.allocated += change.allocated;
      bytes.reserved += change.reserved;
      point.allocated_bytes = std::max(point.allocated_bytes, bytes.allocated);
      point.reserved_bytes = std::max(point.reserved_bytes, bytes.reserved);
    }
    curve.push_back(point);
  }
  return curve;
}

}  // namespace gpupool::engine
