// Private to server/control: runs forecasts on a thread of its own, so that
// nobody waits for them: of the starts of jobs that were just submitted, and of
// jobs that are only planned.
//
// Thread-safety: Ask from any thread. Looks run on the forecaster's thread;
// those that are left run in Stop().
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
  // Maximum number of waiting looks. Beyond it Ask refuses.
  static constexpr size_t kMostWaiting = 8;
  // Maximum number of jobs in a state that is looked at. Copying a larger one
  // would delay the control thread.
  static constexpr size_t kMostJobs = 20000;
  // Maximum number of jobs in one prediction.
  static constexpr size_t kMostPending = 1000;

  Forecaster() = default;
  ~Forecaster();  // Stops.

  void Start();
  void Stop();

  // A look into the future. `stopped`: there is no time left for it.
  using Look = std::function<void(bool stopped)>;
  // Queues the look, which is then called exactly once. Returns false, and
  // never calls it, when too many wait.
  bool Ask(Look look);

  // Predicts the starts of jobs that were submitted in this turn and wait. Call
  // on the control thread after the commit. Predictions come through `queue` a
  // moment later. They take at most a twentieth of the time.
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
  std::vector<scheduler::JobId> pending_;  // used by the control thread only
  std::thread thread_;
};

}  // namespace gpupool::server
