// Streams whose progress a test sets. A wait makes the stream reach the moment.
#pragma once

#include <algorithm>
#include <map>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "engine/memory/timeline.h"

namespace gpupool::engine {

class SimulatedTimeline : public TimelineSource {
 public:
  void Pass(const Moment& moment) {
    absl::MutexLock lock(&mutex_);
    PassLocked(moment);
  }
  // Makes every wait from now on fail.
  void Break() {
    absl::MutexLock lock(&mutex_);
    broken_ = true;
  }
  // Returns the moments that were waited for, in order.
  std::vector<Moment> waits() const {
    absl::MutexLock lock(&mutex_);
    return waits_;
  }

  uint64_t Completed(StreamId stream) const override {
    absl::MutexLock lock(&mutex_);
    const auto found = completed_.find(stream);
    return found == completed_.end() ? 0 : found->second;
  }
  absl::Status Wait(const Moment& moment) override {
    absl::MutexLock lock(&mutex_);
    if (broken_) return absl::InternalError("the simulated device is lost");
    waits_.push_back(moment);
    PassLocked(moment);
    return absl::OkStatus();
  }

 private:
  void PassLocked(const Moment& moment) {
    uint64_t& completed = completed_[moment.stream];
    completed = std::max(completed, moment.counter);
  }

  mutable absl::Mutex mutex_;
  std::map<StreamId, uint64_t> completed_;
  std::vector<Moment> waits_;
  bool broken_ = false;
};

}  // namespace gpupool::engine
