// Subscriptions to the events of jobs (WatchJob).
//
// Thread-safety: any thread. Invariant: after Unsubscribe has returned, the
// subscriber's function neither runs nor will run again.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_set.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::server {

class EventStreams {
 public:
  // Subscribes to the job. `wake` must be short, and must neither subscribe nor
  // unsubscribe.
  uint64_t Subscribe(uint64_t job, std::function<void()> wake);
  void Unsubscribe(uint64_t subscription);
  // Wakes the subscribers of these jobs.
  void Wake(const absl::btree_set<uint64_t>& jobs);

 private:
  absl::Mutex mutex_;
  uint64_t last_id_ ABSL_GUARDED_BY(mutex_) = 0;
  // Functions by job and subscription.
  std::map<std::pair<uint64_t, uint64_t>, std::function<void()>> wakes_
      ABSL_GUARDED_BY(mutex_);
  std::map<uint64_t, uint64_t> job_of_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
