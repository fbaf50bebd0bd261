// Private to server/control: looks ahead on a thread of its own, so that nobody
// waits for it: when jobs that were just submitted will start, and when one
// that is only planned would.
//
// Thread-safety: Ask from any thread. Looks run on the forecaster's thread,
// those that are left when it stops in Stop().
#pragma once

#include <deque>
#include <functional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {
class State;
}  // namespace gpupool::scheduler

namespace gpupool::server {

class Transaction;
class WorkQueue;

class Forecaster {
 public:
  // Looks that may wait; more are refused.
  static constexpr size_t kMostWaiting = 8;
  // A state with more jobs is not looked at: copying it would hold up others.
  static constexpr size_t kMostJobs = 20000;
  // Jobs whose prediction is asked for at once.
  static constexpr size_t kMostPending = 1000;

  Forecaster() = default;
  ~Forecaster();  // Stops.

  void Start();
  void Stop();

  // `stopped`: there is no time left to look.
  using Look = std::function<void(bool stopped)>;
  // False when there are too many; then it is not called. Otherwise it is,
  // once.
  bool Ask(Look look);

  // Control thread, after the commit. Jobs that were submitted in this turn and
  // wait get their prediction through `queue`, a moment later; not more often
  // than costs a twentieth of the time.
  void Predict(const Transaction& transaction, const scheduler::State& state,
               WorkQueue* queue);

 private:
  void Run();
  bool HasNews() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopping_ || !looks_.empty();
  }

  absl::Mutex mutex_;
  std::deque<Look> looks_ ABSL_GUARDED_BY(mutex_);
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Time next_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  std::vector<scheduler::JobId> pending_;  // control thread only
  std::thread thread_;
};

}  // namespace gpupool::server
