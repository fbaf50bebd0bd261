// The last events of an allocator, in a ring that drops the oldest. It is off
// by default and then costs nothing.
//
// Thread-safety: none; it is under the allocator's lock. Ownership: its events.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/memory/timeline.h"

namespace gpupool::engine {

enum class MemoryAction : uint8_t {
  kAlloc,
  kFreeRequested,  // the owner gave the block back
  kFreeCompleted,  // every stream that used it has passed it, or may reuse it
  kSegmentMap,
  kSegmentUnmap,
  kOutOfMemory,  // `address` holds the bytes that the device had left
};

// Returns PyTorch's name: "alloc", "free_requested", "segment_map", "oom", ...
absl::string_view MemoryActionName(MemoryAction action);

struct MemoryEvent {
  MemoryAction action = MemoryAction::kAlloc;
  uint64_t address = 0;
  uint64_t bytes = 0;
  StreamId stream = kDefaultStream;
  int64_t time_us = 0;  // since 1970
  std::string owner;    // label; empty for events without an owner
};

class History {
 public:
  // Forgets all events and keeps the last `max_entries` from now on; 0 switches
  // the history off.
  void Start(size_t max_entries);
  bool on() const { return max_entries_ > 0; }
  // Adds an event and sets its time. Call only when on().
  void Record(MemoryEvent event);
  // Returns the events, oldest first.
  std::vector<MemoryEvent> Events() const;

 private:
  size_t max_entries_ = 0;
  size_t next_ = 0;  // in the full ring: the oldest
  std::vector<MemoryEvent> ring_;
};

}  // namespace gpupool::engine
