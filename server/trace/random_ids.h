// Random numbers for the ids of spans: splitmix64 (Steele, Lea, Flood: Fast
// Splittable Pseudorandom Number Generators, 2014) over two counters that start
// at random. Not for secrets.
//
// Thread-safety: any thread, without locks.
#pragma once

#include <atomic>
#include <cstdint>

#include "server/trace/trace_context.h"

namespace gpupool::server {

class RandomIds {
 public:
  // Takes the starts of the two counters.
  RandomIds(uint64_t first, uint64_t second) : first_(first), second_(second) {}

  // Returns 64 random bits.
  uint64_t Next();
  // Returns an id that is set.
  SpanId NextSpan();
  // Returns an id that is set and ends with the 8 bytes of `low`.
  TraceId TraceEndingWith(uint64_t low);

 private:
  std::atomic<uint64_t> first_;
  std::atomic<uint64_t> second_;
};

}  // namespace gpupool::server
