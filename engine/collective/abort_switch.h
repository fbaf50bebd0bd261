// Ends a group of ranks from any thread and at any time: before its members
// have found each other, while they connect, and while one waits for another.
// Whoever starts a member keeps the switch and gives it along.
//
// Thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::engine {

class AbortSwitch {
 public:
  // Called with the reason, once, with the switch locked: it must not call the
  // switch and must not block.
  using Listener = std::function<void(absl::string_view)>;

  AbortSwitch() = default;
  AbortSwitch(const AbortSwitch&) = delete;
  AbortSwitch& operator=(const AbortSwitch&) = delete;

  // The first reason counts; later calls do nothing.
  void Abort(absl::string_view reason);

  // ABORTED with the reason after Abort.
  absl::Status status() const;

  // Adds who is to be told; told at once when Abort was called already. Once
  // Remove has returned the listener does not run and will not.
  uint64_t Add(Listener listener);
  void Remove(uint64_t id);

 private:
  mutable absl::Mutex mutex_;
  bool aborted_ ABSL_GUARDED_BY(mutex_) = false;
  std::string reason_ ABSL_GUARDED_BY(mutex_);
  uint64_t next_id_ ABSL_GUARDED_BY(mutex_) = 1;
  std::vector<std::pair<uint64_t, Listener>> listeners_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::engine
