// Streams and their progress. Work on a stream runs in the order in which it
// was queued, and each stream counts up. A block whose last use ends at
// (stream, counter) is free for all streams when that stream has passed the
// counter. Two integers are compared; no events are created, recorded or
// polled.
//
// On CUDA a stream-ordered write puts the counter into a pinned page when the
// work before it has ended. Completed reads that page.
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

// Thread-safety: both functions may be called from any thread.
class TimelineSource {
 public:
  virtual ~TimelineSource() = default;

  // Returns the largest counter that the stream has passed. Never decreases. It
  // is called under the lock of an allocator, so it neither waits nor
  // allocates.
  virtual uint64_t Completed(StreamId stream) const = 0;
  // Blocks the calling thread until the moment has passed. Called without a
  // lock. An error (a lost device) ends the request that waited.
  virtual absl::Status Wait(const Moment& moment) = 0;
};

}  // namespace gpupool::engine
