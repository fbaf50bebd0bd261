// Puts the waiting requests of one model version together into batches, copies
// their rows into a slot of the worker's ring (the only copy on the way in),
// and hands each request its rows of the answer.
//
// Has no thread of its own. The thread that brings the event which makes a
// batch due also closes it: the thread that enqueues, the ring's completion
// thread, the thread that frees a slot, or the timer. Nothing blocks: without a
// free slot requests wait in the bounded queue.
//
// Thread-safety: any thread. Ownership: held by shared_ptr, because the ring
// and the timer call back. Calls are borrowed until their OnAnswer.
//
// Invariants
//  1. A call is in queue_, in one Batch in flight, or answered.
//  2. in_flight_ counts the Batches that were taken and not yet settled.
//  3. An error of one request is no answer to another: the requests of a batch
//     that the worker refuses run again, each alone.
//  4. Nothing that may call back (OnAnswer, Submit, NotifyWhenFree, the timer,
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
#include "server/serving/call_executor.h"
#include "server/serving/inference_call.h"
#include "server/serving/serving_observer.h"
#include "server/serving/statistics.h"
#include "server/serving/tensor/slot_packing.h"
#include "server/serving/tensor/tensor_view.h"
#include "server/serving/wake_timer.h"

namespace gpupool::server {

struct BatcherOptions {
  std::string label;  // for messages: "'digits' version 1"
  uint64_t version_id = 0;
  std::vector<TensorFormat> inputs;   // 1 .. kMaxSlotTensors
  std::vector<TensorFormat> outputs;  // 1 .. kMaxSlotTensors
  scheduler::BatchOptions batch;
  // Whether a batch is one request, because its rows may influence others.
  bool computes_alone = false;
  uint32_t max_queue_size = scheduler::kDefaultMaxQueueSize;
  // Time for which a request waits for a lost worker to come back, from the
  // loss or, if that is later, from its arrival.
  absl::Duration recovery_wait = absl::Seconds(10);
};

class Batcher : public CallExecutor,
                public std::enable_shared_from_this<Batcher> {
 public:
  // `timer` must outlive the batcher; `observer` may be null.
  Batcher(BatcherOptions options, WakeTimer* timer,
          std::unique_ptr<VersionObserver> observer);
  ~Batcher() override;

  // Queues a call, whose inputs must have passed CheckInputs for this version.
  // Errors of the call's OnAnswer:
  //   * Unavailable: the queue is full; queue_deadline passed; the worker was
  //     lost or does not hold the version yet (after one more try); Close was
  //     called
  //   * DeadlineExceeded: its deadline passed before its batch was launched
  //   * Cancelled: by Cancel
  //   * ResourceExhausted: its rows do not fit one slot of the ring
  //   * other codes: from the worker
  void Enqueue(InferenceCall* call) override;

  // Answers a waiting call with Cancelled. No-op for a call that does not wait
  // any more, which must not have been destroyed.
  void Cancel(InferenceCall* call) override;

  // Counts a request that was refused before it could be queued.
  void CountRefused(absl::StatusCode code) override;

  // Records what the response cache did for a request. A hit is not queued.
  void RecordCache(const CacheSample& sample) override;

  // Sets the ring for batches from now on; null while the worker is lost.
  void SetRing(std::shared_ptr<SlotRingClient> ring);

  // Tells that no worker will come back for this version: without a ring,
  // waiting calls are answered Unavailable at once instead of after
  // recovery_wait.
  void Drain() override;

  // Answers all waiting and all later calls with `status`.
  void Close(const absl::Status& status) override;

  // Returns whether a worker computes for this version now.
  bool has_worker() const;
  size_t queue_length() const;
  // Returns the arrival of the oldest unanswered call; InfiniteFuture when
  // there is none.
  absl::Time oldest_call() const;
  VersionObserver* observer() { return observer_.get(); }  // may be null
  VersionStatistics& statistics() { return statistics_; }
  const VersionStatistics& statistics() const override { return statistics_; }

 private:
  struct Batch;
  struct Refusal {
    InferenceCall* call;
    absl::Status status;
  };
  // The timer's next call, so that it is not asked twice.
  struct Alarm {
    absl::Time set_for = absl::InfiniteFuture();
    // Returns `time` when the timer must be asked for it, else InfiniteFuture.
    absl::Time Earlier(bool idle, absl::Time time);
  };
  // Limit of launches of a call: a second one after its worker was lost.
  static constexpr int kMaxLaunches = 2;

  absl::Status Admit(const InferenceCall& call) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckFits(const InferenceCall& call) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns the rows of requests of these sizes that fit a slot of the ring.
  uint32_t RowsPerSlotOf(absl::Span<const int64_t> sizes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  SlotFormats FormatsOf(absl::Span<const int64_t> sizes) const {
    return {options_.inputs, options_.outputs, sizes};
  }
  absl::Status Expiry(const InferenceCall& call, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns until when the call waits for a lost worker.
  absl::Time RecoveryEnd(const InferenceCall& call) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteExpiry(const InferenceCall& call)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void TakeExpired(absl::Time now, std::vector<Refusal>* refusals)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Asks the policy, which sees the calls that may share a batch with the
  // first, and one more that may not. A call that computes alone looks like a
  // full batch.
  scheduler::BatchDecision Decide(const scheduler::BatchOptions& limits,
                                  absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void NoteBatchTime(absl::Duration time) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Returns null when nothing is due. Sets `full_ring` when a slot was missing.
  std::unique_ptr<Batch> TakeBatch(absl::Time now,
                                   std::shared_ptr<SlotRingClient>* full_ring)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Requeue(Batch& batch, const absl::Status& status,
               std::vector<Refusal>* refusals)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void LoseRing(absl::Time now) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void ReportQueueLength() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  // Answers expired calls and launches all batches that are due.
  void Pump();
  void SetAlarm(absl::Time time, Alarm Batcher::*alarm);
  void WaitForSlot(SlotRingClient& ring);
  void Launch(std::unique_ptr<Batch> batch);
  void Settle(Batch& batch, const absl::Status& status, Slot slot);
  void Deliver(const Batch& batch, const absl::Status& status, Slot& slot);
  std::vector<int64_t> RowShapeOf(const SlotTensor& tensor) const;
  void Refuse(const std::vector<Refusal>& refusals);
  // Returns since when the client waits, for statistics and traces.
  static absl::Time Began(const InferenceCall& call);
  // Fills in the stages of a call that were known before its batch.
  static void TellArrival(InferenceCall* call);
  void Record(const RequestSample& sample, absl::Time now);

  const BatcherOptions options_;
  WakeTimer* const timer_;
  const std::unique_ptr<VersionObserver> observer_;
  VersionStatistics statistics_;

  mutable absl::Mutex mutex_;
  std::deque<InferenceCall*> queue_ ABSL_GUARDED_BY(mutex_);  // oldest first
  std::shared_ptr<SlotRingClient> ring_ ABSL_GUARDED_BY(mutex_);
  // Cached rows per slot for a model without served sizes; 0: not asked yet.
  mutable uint32_t rows_per_slot_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Time ring_lost_ ABSL_GUARDED_BY(mutex_);  // while ring_ is null
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  // Smoothed time of a batch (Batch::Time); infinite until the first answer.
  absl::Duration batch_time_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteDuration();
  // Arrival of the first call of each Batch in flight.
  absl::btree_multiset<absl::Time> in_flight_since_ ABSL_GUARDED_BY(mutex_);
  bool waits_for_slot_ ABSL_GUARDED_BY(mutex_) = false;
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  // Lower bound of the time at which a call in queue_ expires.
  absl::Time next_expiry_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  absl::Time batch_due_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
  Alarm expiry_alarm_ ABSL_GUARDED_BY(mutex_);
  Alarm due_alarm_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
