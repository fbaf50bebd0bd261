// Runs that a device has captured, and which of them are kept. A run is queued
// plainly the first time, which lets libraries choose and load what they need,
// captured the second time, and started as one thing from then on. Captures
// take memory of the device that no allocator sees, so a bounded number of them
// and of their bytes is kept. The one that was started longest ago goes first,
// and is captured again when it is needed. A new capture exists before others
// go: for that instant it comes on top of the bound.
//
// Thread-safety: the compute thread's; counters may be read by any thread. The
// capturer and the counters must outlive the cache, and the cache its
// recordings.
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

// A run that was captured. May be destroyed while the device is still at it.
class CapturedRun {
 public:
  virtual ~CapturedRun() = default;
  // Queues the run.
  virtual absl::Status Launch() = 0;
  // Memory of the device that goes back with the capture.
  virtual uint64_t bytes() const = 0;
};

// How a device captures.
class Capturer {
 public:
  virtual ~Capturer() = default;
  // What `queue` queues, without doing it; null where that cannot be captured.
  // An error when nothing can be run any more.
  virtual absl::StatusOr<std::unique_ptr<CapturedRun>> Capture(
      const std::function<absl::Status()>& queue) = 0;
};

// What the caches of one device hold together.
struct RecordingCounters {
  std::atomic<uint64_t> captures = 0;
  std::atomic<uint64_t> bytes = 0;
  std::atomic<uint64_t> evictions = 0;  // since the device was opened
  std::atomic<uint64_t> refusals = 0;   // captures larger than the limit
};

// Bytes that the captures of a device with this memory may take, all of its
// back ends together: 1/256 of it, at most 256 MiB.
uint64_t RecordingBytes(uint64_t device_bytes);

// The bound of one of the two back ends of such a device (training, serving).
uint64_t BackendRecordingBytes(uint64_t device_bytes);

struct RecordingCacheOptions {
  // At least 1. The default is one for each bucket of a few models.
  size_t captures = 64;
  uint64_t bytes = std::numeric_limits<uint64_t>::max();
  // Null: nobody counts.
  RecordingCounters* counters = nullptr;
  // Receives a line at the first capture that is larger than `bytes`; may be
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

  // What cannot be captured within the bound is queued plainly for ever.
  std::unique_ptr<Recording> Record(std::function<absl::Status()> queue);

  size_t captures() const { return recent_.size(); }
  uint64_t bytes() const { return bytes_; }
  uint64_t evictions() const { return evictions_; }

 private:
  class CachedRecording;

  // Drops captures until both bounds hold. The newest one holds them alone.
  void Evict();
  void RefuseCapture(uint64_t bytes);

  Capturer* const capturer_;
  const RecordingCacheOptions options_;
  RecordingCounters own_counters_;
  RecordingCounters* const counters_;
  std::list<CachedRecording*> recent_;  // with a capture, started last first
  uint64_t bytes_ = 0;                  // of recent_
  uint64_t evictions_ = 0;
  bool refusal_was_said_ = false;
};

}  // namespace gpupool::engine
