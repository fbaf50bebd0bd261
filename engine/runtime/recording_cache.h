// Runs that a device has captured, and which of them are kept. A run is queued
// plainly the first time, which lets libraries choose and load what they need,
// captured the second time, and started as one thing from then on. A bounded
// number of captures is kept, each of which takes memory of the device that no
// allocator sees; the one that was started longest ago goes first, and is
// captured again when it is needed.
//
// Thread-safety: the compute thread's. The capturer must outlive the cache, and
// the cache its recordings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/runtime/device_backend.h"

namespace gpupool::engine {

// A run that was captured. May be destroyed while the device is still at it.
class CapturedRun {
 public:
  virtual ~CapturedRun() = default;
  // Queues the run.
  virtual absl::Status Launch() = 0;
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

class RecordingCache {
 public:
  // One for each bucket of a few models.
  static constexpr size_t kDefaultCaptures = 64;

  // Keeps at most `most` >= 1 captures.
  explicit RecordingCache(Capturer* capturer, size_t most = kDefaultCaptures)
      : capturer_(capturer), most_(most) {}
  RecordingCache(const RecordingCache&) = delete;
  RecordingCache& operator=(const RecordingCache&) = delete;

  // What cannot be captured is queued plainly for ever.
  std::unique_ptr<Recording> Record(std::function<absl::Status()> queue);

  size_t captures() const { return recent_.size(); }
  uint64_t evictions() const { return evictions_; }

 private:
  class CachedRecording;

  Capturer* const capturer_;
  const size_t most_;
  std::list<CachedRecording*> recent_;  // with a capture, started last first
  uint64_t evictions_ = 0;
};

}  // namespace gpupool::engine
