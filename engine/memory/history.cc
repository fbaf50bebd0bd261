#include "engine/memory/history.h"

#include <utility>

#include "absl/time/clock.h"

namespace gpupool::engine {

absl::string_view MemoryActionName(MemoryAction action) {
  switch (action) {
    case MemoryAction::kAlloc:
      return "alloc";
    case MemoryAction::kFreeRequested:
      return "free_requested";
    case MemoryAction::kFreeCompleted:
      return "free_completed";
    case MemoryAction::kSegmentMap:
      return "segment_map";
    case MemoryAction::kSegmentUnmap:
      return "segment_unmap";
    case MemoryAction::kOutOfMemory:
      return "oom";
  }
  return "";
}

void History::Start(size_t max_entries) {
  max_entries_ = max_entries;
  next_ = 0;
  // A new vector, because clear() would keep the memory.
  ring_ = std::vector<MemoryEvent>();
}

void History::Record(MemoryEvent event) {
  event.time_us = absl::GetCurrentTimeNanos() / 1000;
  if (ring_.size() < max_entries_) {
    ring_.push_back(std::move(event));
    return;
  }
  ring_[next_] = std::move(event);
  next_ = (next_ + 1) % max_entries_;
}

std::vector<MemoryEvent> History::Events() const {
  std::vector<MemoryEvent> events;
  events.reserve(ring_.size());
  for (size_t i = 0; i < ring_.size(); ++i) {
    events.push_back(ring_[(next_ + i) % ring_.size()]);
  }
  return events;
}

}  // namespace gpupool::engine
