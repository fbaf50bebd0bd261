// Gives memory back to the system when requests are over. The allocator keeps
// freed memory in pieces, so that a burst of large requests, of answers over
// HTTP or of connections would stay in the daemon for ever.
//
// Thread-safety: create and destroy on one thread; the watch has its own.
// Ownership: borrows the gate.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>

#include "absl/time/time.h"
#include "server/api/inference/bytes_in_flight.h"
#include "server/serving/wake_timer.h"

namespace gpupool::server {

// Decides when memory is given back: in a quiet time, when much is kept.
class QuietTime {
 public:
  // Bytes of requests between two looks, and in flight, that count as none.
  static constexpr uint64_t kQuietBytes = uint64_t{1} << 20;
  // Kept bytes, beyond the least so far, that are worth the time.
  static constexpr uint64_t kWorthBytes = uint64_t{64} << 20;
  // Quiet looks from one count of the kept bytes to the next. Counting holds
  // the allocator's locks, 20 ms with 100,000 free pieces.
  static constexpr int kBetweenCounts = 15;

  // Returns whether to count the kept bytes now: at the first look of a quiet
  // time, and seldom after it. `used` are the bytes of requests in flight,
  // `asked` those of all requests so far. Call it at regular times.
  bool ShouldCount(uint64_t used, uint64_t asked);
  // Returns whether to give memory back, of which `kept` bytes are not in use.
  bool IsDue(uint64_t kept);
  // Notes the bytes that are still kept after memory was given back.
  void GaveBack(uint64_t kept) { least_kept_ = kept; }

 private:
  uint64_t last_asked_ = 0;
  int quiet_looks_ = 0;  // one after the other
  // The least bytes that were kept since memory was given back. The allocator
  // cannot give them.
  uint64_t least_kept_ = std::numeric_limits<uint64_t>::max();
};

struct MemoryReturnOptions {
  absl::Duration interval = absl::Seconds(2);
  // Gives the memory back; by default asks the allocator.
  std::function<void()> give_back;
  // Returns the bytes in memory that are not in use; by default those of the
  // process without those that the allocator has given out.
  std::function<uint64_t()> kept;
};

class MemoryReturn {
 public:
  // `bytes` must outlive this object.
  MemoryReturn(const BytesInFlight* bytes, MemoryReturnOptions options);

 private:
  void Look();

  const BytesInFlight* const bytes_;
  const MemoryReturnOptions options_;
  QuietTime quiet_;
  WakeTimer timer_;  // last, so that it ends before what it calls
};

}  // namespace gpupool::server
