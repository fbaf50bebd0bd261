// A switch that ends a group of ranks from any thread at any time: before its
// members have found each other, while they connect, and while one waits for
// another. Whoever starts a member keeps the switch and passes it to the
// member.
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
  // Receives the reason, once. It runs with the switch locked, so it must not
  // call the switch and must not block.
  using Listener = std::function<void(absl::string_view)>;

  AbortSwitch() = default;
  AbortSwitch(const AbortSwitch&) = delete;
  AbortSwitch& operator=(const AbortSwitch&) = delete;

  // Aborts the group. The first reason counts; later calls do nothing.
  void Abort(absl::string_view reason);

  // Returns ABORTED with the reason after Abort, else OK.
  absl::Status status() const;

  // Adds a listener and returns its id. After Abort the listener is called at
  // once. When Remove has returned, the listener does not run and never will.
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
