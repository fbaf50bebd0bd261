// Streams and how far they are. Work on a stream happens in the order in
// which it was put there; each stream counts up, and a block of memory whose
// last use ends at (stream, counter) is free for everybody when the stream
// has passed that counter. Two integers are compared; there are no events to
// create, record or poll.
//
// On CUDA a stream-ordered write puts the counter into a pinned page after
// the work that it stands for, and Completed reads that page.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace gpupool::engine {

using StreamId = uint32_t;
inline constexpr StreamId kDefaultStream = 0;

// A point in a stream's order. Counter 0 is passed from the start.
struct Moment {
  StreamId stream = kDefaultStream;
  uint64_t counter = 0;

  bool operator==(const Moment&) const = default;
};

// Thread-safety: both functions are called from any thread.
class TimelineSource {
 public:
  virtual ~TimelineSource() = default;

  // The largest counter that the stream has passed. Never decreases. Called
  // under the lock of an allocator: it neither waits nor allocates.
  virtual uint64_t Completed(StreamId stream) const = 0;
  // Blocks the calling thread until the moment has passed. Called without a
  // lock. An error (a device that is lost) ends the request that waited.
  virtual absl::Status Wait(const Moment& moment) = 0;
};

}  // namespace gpupool::engine
