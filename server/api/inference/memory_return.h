// Gives the memory that requests have used back to the system when they are
// over. The allocator keeps freed memory in pieces, so that a burst of large
// requests would stay in the daemon for ever.
//
// Thread-safety: create and destroy on one thread; the watch has its own.
// Ownership: borrows the gate.
#pragma once

#include <cstdint>
#include <functional>

#include "absl/time/time.h"
#include "server/api/inference/bytes_in_flight.h"
#include "server/serving/wake_timer.h"

namespace gpupool::server {

// Decides when memory is given back: in a quiet time after many bytes.
class QuietTime {
 public:
  // Bytes of requests between two looks, and in flight, that count as none.
  static constexpr uint64_t kQuietBytes = uint64_t{1} << 20;
  // Bytes of requests after which giving memory back is worth its time.
  static constexpr uint64_t kWorthBytes = uint64_t{64} << 20;

  // Returns whether to give memory back now. `used` are the bytes in flight,
  // `asked` those of all requests so far. Call it at regular times.
  bool IsDue(uint64_t used, uint64_t asked);

 private:
  uint64_t last_asked_ = 0;
  uint64_t returned_at_ = 0;  // `asked` at the last return
};

struct MemoryReturnOptions {
  absl::Duration interval = absl::Seconds(2);
  // Gives the memory back; by default asks the allocator.
  std::function<void()> give_back;
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
