// A cache of runs that a device has captured. A run is queued plainly the first
// time, in which libraries choose and load what they need. It is captured the
// second time and started as a whole from then on. Captures take device memory
// that no allocator sees, so their number and bytes are bounded. The least
// recently started capture is dropped first, and captured again when it is
// needed. A new capture exists before old ones are dropped, so it exceeds the
// bound for that moment.
//
// Thread-safety: belongs to the compute thread; counters may be read by any
// thread. The capturer and the counters must outlive the cache, and the cache
// its recordings.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <list>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine {

// A captured run. May be destroyed while the device still executes it.
class CapturedRun {
 public:
  virtual ~CapturedRun() = default;
  // Queues the run.
  virtual absl::Status Launch() = 0;
  // Returns the device memory that is freed with the capture.
  virtual uint64_t bytes() const = 0;
};

// A device's way to capture runs.
class Capturer {
 public:
  virtual ~Capturer() = default;
  // Captures what `queue` queues, without executing it. Returns null if that
  // cannot be captured, and an error when nothing can run any more.
  virtual absl::StatusOr<std::unique_ptr<CapturedRun>> Capture(
      const std::function<absl::Status()>& queue) = 0;
};

// Totals of the caches of one device.
struct RecordingCounters {
  std::atomic<uint64_t> captures = 0;
  std::atomic<uint64_t> bytes = 0;
  std::atomic<uint64_t> evictions = 0;  // since the device was opened
  std::atomic<uint64_t> refusals = 0;   // captures larger than the limit
};

// Returns the bytes that captures may take on a device with this memory, in all
// of its back ends together: 1/256 of it, at most 256 MiB.
uint64_t RecordingBytes(uint64_t device_bytes);

// Returns the bound for one of the two back ends (training, serving) of such a
// device.
uint64_t BackendRecordingBytes(uint64_t device_bytes);

struct RecordingCacheOptions {
  // The most captures, at least 1. The default is one for each bucket of a few
  // models.
  size_t captures = 64;
  uint64_t bytes = std::numeric_limits<uint64_t>::max();
  // The counters to update; may be null.
  RecordingCounters* counters = nullptr;
  // Receives a line at the first capture that is larger than `bytes`. May be
  // empty.
  std::function<void(absl::string_view)> log = nullptr;
};

class RecordingCache {
 public:
  explicit RecordingCache(Capturer* capturer,
                          RecordingCacheOptions options = {})
      : capturer_(capturer),
        options_(std::move(options)),
        counters_(options_.counters == nullptr ? &own_counters_
                                               : options_.counters) {}
  RecordingCache(const RecordingCache&) = delete;
  RecordingCache& operator=(const RecordingCache&) = delete;

  // Returns a recording. If it cannot be captured within the bound, it is
  // always queued plainly.
  std::unique_ptr<Recording> Record(std::function<absl::Status()> queue);

  size_t captures() const { return recent_.size(); }
  uint64_t bytes() const { return bytes_; }
  uint64_t evictions() const { return evictions_; }

 private:
  class CachedRecording;

  // Drops captures until both bounds hold. The newest one fits alone.
  void Evict();
  void RefuseCapture(uint64_t bytes);

  Capturer* const capturer_;
  const RecordingCacheOptions options_;
  RecordingCounters own_counters_;
  RecordingCounters* const counters_;
  // The recordings with a capture, the last started first.
  std::list<CachedRecording*> recent_;
  uint64_t bytes_ = 0;  // sum over recent_
  uint64_t evictions_ = 0;
  bool refusal_was_said_ = false;
};

}  // namespace gpupool::engine
