// Puts the waiting requests of one model version together to batches, copies
// their rows into a slot of the worker's ring (the only copy on the way in),
// and hands each request its rows of the answer.
//
// No thread of its own: a batch is closed by whoever brings the event that
// makes it due: the thread that enqueues, the ring's completion thread, the
// thread that frees a slot, or the timer. Nothing blocks; no free slot means
// that requests wait in the bounded queue.
//
// Thread-safety: any thread. Ownership: held by shared_ptr, because the ring
// and the timer call back; calls are borrowed until their OnAnswer.
//
// Invariants
//  1. A call is in queue_, in one Batch in flight, or answered.
//  2. in_flight_ counts the Batches that were taken and not yet settled.
//  3. Nothing that may call back (OnAnswer, Submit, NotifyWhenFree, the timer,
//     the end of a Slot) happens with mutex_ held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "scheduler/serve/batch_policy.h"
#include "server/ipc/slot_ring.h"
#include "server/serving/inference_call.h"
#include "server/serving/serving_observer.h"
#include "server/serving/slot_packing.h"
#include "server/serving/statistics.h"
#include "server/serving/tensor_view.h"
#include "server/serving/wake_timer.h"

namespace gpupool::server {

struct BatcherOptions {
  std::string label;  // what messages call the model: "'digits' version 1"
  uint64_t version_id = 0;
  std::vector<TensorFormat> inputs;   // 1 .. kMaxSlotTensors
  std::vector<TensorFormat> outputs;  // 1 .. kMaxSlotTensors
  scheduler::BatchOptions batch;
  uint32_t max_queue_size = scheduler::kDefaultMaxQueueSize;
  // How long requests wait for a lost worker to come back.
  absl::Duration recovery_wait = absl::Seconds(10);
};

class Batcher : public std::enable_shared_from_this<Batcher> {
 public:
  // `timer` outlives the batcher; `observer` may be null.
  Batcher(BatcherOptions options, WakeTimer* timer,
          std::unique_ptr<VersionObserver> observer);
  ~Batcher();

  // Queues a call; its inputs have passed CheckInputs for this version. The
  // call's OnAnswer gets
  //   Unavailable        the queue is full; queue_deadline passed; the worker
  //                      was lost or does not hold the version yet (tried
  //                      once more first); Close was called
  //   DeadlineExceeded   its deadline passed before its batch was launched
  //   Cancelled          see Cancel
  //   ResourceExhausted  its rows do not fit one slot of the ring
  //   other codes        as the worker said
  void Enqueue(InferenceCall* call);

  // Answers a call that still waits with Cancelled; one that does not wait
  // (any more) is left alone. `call` must not have been destroyed.
  void Cancel(InferenceCall* call);

  // Counts a request for this version that was refused before it could be
  // queued.
  void CountRefused(absl::StatusCode code);

  // Where batches go from now on; null while the worker is lost.
  void SetRing(std::shared_ptr<SlotRingClient> ring);

  // No worker will come back for this version: with no ring, what waits is
  // answered Unavailable at once instead of after recovery_wait.
  void Drain();

  // Answers all that waits, and all later calls, with `status`.
  void Close(const absl::Status& status);

  size_t queue_length() const;
  // Since when the first of the calls waits that are not answered yet;
  // InfiniteFuture when there is none.
  absl::Time oldest_call() const;
  VersionObserver* observer() { return observer_.get(); }  // may be null
  VersionStatistics& statistics() { return statistics_; }
  const VersionStatistics& statistics() const { return statistics_; }

 private:
  struct Batch;
  struct Refusal {
    InferenceCall* call;
    absl::Status status;
  };
  // Remembers what the timer knows already.
  struct Alarm {
    absl::Time set_for = absl::InfiniteFuture();
    // `time` when the timer must be told of it, else InfiniteFuture.
    absl::Time Earlier(bool idle, absl::Time time);
  };
  // A call whose worker was lost is tried once more.
  static constexpr int kMaxLaunches = 2;

  absl::Status Admit(const InferenceCall& call) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckFits(const InferenceCall& call) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of requests of these sizes, in the ring that there is.
  uint32_t RowsPerSlotOf(absl::Span<const int64_t> sizes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SlotFormats FormatsOf(absl::Span<const int64_t> sizes) const {
    return {options_.inputs, options_.outputs, sizes};
  }
  absl::Status Expiry(const InferenceCall& call, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteExpiry(const InferenceCall& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeExpired(absl::Time now, std::vector<Refusal>* refusals)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What the policy sees: the calls that may share a batch with the first, and
  // one more that may not.
  scheduler::BatchDecision Decide(const scheduler::BatchOptions& limits,
                                  absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Null: nothing is due. `full_ring` is set when a slot was missing.
  std::unique_ptr<Batch> TakeBatch(absl::Time now,
                                   std::shared_ptr<SlotRingClient>* full_ring)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Requeue(Batch& batch, const absl::Status& status,
               std::vector<Refusal>* refusals)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoseRing(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportQueueLength() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Answers what expired and launches all batches that are due.
  void Pump();
  void SetAlarm(absl::Time time, Alarm Batcher::*alarm);
  void WaitForSlot(SlotRingClient& ring);
  void Launch(std::unique_ptr<Batch> batch);
  void Settle(Batch& batch, const absl::Status& status, Slot slot);
  void Deliver(const Batch& batch, const absl::Status& status, Slot& slot);
  std::vector<int64_t> RowShapeOf(const SlotTensor& tensor) const;
  void Refuse(const std::vector<Refusal>& refusals);
  void Record(const RequestSample& sample, absl::Time now);

  const BatcherOptions options_;
  WakeTimer* const timer_;
  const std::unique_ptr<VersionObserver> observer_;
  VersionStatistics statistics_;

  mutable absl::Mutex mutex_;
  std::deque<InferenceCall*> queue_ ABSL_GUARDED_BY(mutex_);  // oldest first
  std::shared_ptr<SlotRingClient> ring_ ABSL_GUARDED_BY(mutex_);
  // Of a model without served sizes, on this ring; 0 until somebody asks.
  mutable uint32_t rows_per_slot_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time ring_lost_ ABSL_GUARDED_BY(mutex_);  // while ring_ is null
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  // When the first call of each Batch in flight arrived.
  absl::btree_multiset<absl::Time> in_flight_since_ ABSL_GUARDED_BY(mutex_);
  bool waits_for_slot_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  // No call in queue_ expires before this.
  absl::Time next_expiry_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Time batch_due_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  Alarm expiry_alarm_ ABSL_GUARDED_BY(mutex_);
  Alarm due_alarm_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
