// The last events of an allocator: a ring that forgets the oldest. Off until
// it is asked for, and then costs nothing.
//
// Thread-safety: none (the allocator's lock). Ownership: its events.
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

// PyTorch's name: "alloc", "free_requested", "segment_map", "oom", ...
absl::string_view MemoryActionName(MemoryAction action);

struct MemoryEvent {
  MemoryAction action = MemoryAction::kAlloc;
  uint64_t address = 0;
  uint64_t bytes = 0;
  StreamId stream = kDefaultStream;
  int64_t time_us = 0;  // since 1970
  std::string owner;    // label; empty where nobody is concerned
};

class History {
 public:
  // Forgets everything and keeps the last `max_entries` events from now on;
  // 0 switches it off.
  void Start(size_t max_entries);
  bool on() const { return max_entries_ > 0; }
  // The event's time is set here. Call only when on().
  void Record(MemoryEvent event);
  // Oldest first.
  std::vector<MemoryEvent> Events() const;

 private:
  size_t max_entries_ = 0;
  size_t next_ = 0;  // of the full ring: the oldest
  std::vector<MemoryEvent> ring_;
};

}  // namespace gpupool::engine
