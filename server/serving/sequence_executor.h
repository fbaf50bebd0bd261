// Answers the calls of a version that serves sequences: orders them by their
// sequences, adds controls and states to their inputs, and gives them to the
// batcher, where steps of different sequences share batches. Has no thread of
// its own.
//
// The state of a sequence lies in the server's memory between its requests. It
// changes only with an answer of success, so a batch that is computed again
// after the loss of a worker begins with the same state. A request that was
// cancelled, or whose deadline passed, before its answer came ends its
// sequence. The executor must answer each call of a sequence before it starts
// the next one.
//
// Thread-safety: any thread. Ownership: held by shared_ptr, because steps and
// the timer call back. Calls are borrowed until their OnAnswer.
//
// Invariants
//  1. A call is in queue_, in steps_, or about to be answered.
//  2. Nothing that may call back happens with mutex_ held.
//  3. A call is answered by a step before the queue learns that the step is
//     done, so answers of a sequence keep its order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/serving/call_executor.h"
#include "server/serving/sequence_plan.h"
#include "server/serving/sequence_queue.h"
#include "server/serving/serving_observer.h"
#include "server/serving/wake_timer.h"

namespace gpupool::server {

struct SequenceParts {
  std::shared_ptr<const SequencePlan> plan;
  // Computes steps: the batcher. Takes one step of each sequence at a time.
  std::shared_ptr<CallExecutor> batches;
  WakeTimer* timer = nullptr;           // outlives the executor
  VersionObserver* observer = nullptr;  // of `batches`; may be null
};

class SequenceExecutor : public CallExecutor,
                         public std::enable_shared_from_this<SequenceExecutor> {
 public:
  // `max_waiting` bounds the requests that wait for their turn.
  SequenceExecutor(SequenceParts parts, uint32_t max_waiting);
  ~SequenceExecutor() override;

  // Errors of the call's OnAnswer:
  //   * InvalidArgument: more than one row; no sequence_id, or one that the
  //     model cannot take; no start of a sequence that is not known
  //   * Aborted: a request before it in its sequence failed
  //   * Unavailable: too many requests wait; the version is being unloaded;
  //     Close was called
  //   * Cancelled, DeadlineExceeded: also when that happened while a worker
  //     computed the call
  //   * others of the batcher
  void Enqueue(InferenceCall* call) override;
  void Cancel(InferenceCall* call) override;
  // Refuses sequences that have no place yet. Requests of the others are
  // answered, and what is left of these sequences goes with the version.
  void Drain() override;
  void Close(const absl::Status& status) override;
  void CountRefused(absl::StatusCode code) override;
  void RecordCache(const CacheSample& sample) override;
  const VersionStatistics& statistics() const override;

 private:
  class Step;
  // Work that is to be done without the lock.
  struct Work {
    std::vector<std::shared_ptr<Step>> steps;
    std::vector<SequenceRefusal> refusals;
  };

  absl::Status Check(const InferenceCall& call) const;
  // Makes the steps known to Cancel.
  Work TakeWork(SequenceEffects effects) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Answers refusals and starts steps, also those that become due by steps that
  // are answered at once.
  void Do(Work work);
  void Refuse(const std::vector<SequenceRefusal>& refusals);
  void Prepare(Step& step) const;
  void TakeAnswer(Step& step, const absl::Status& status,
                  absl::Span<const absl::Span<const std::byte>> outputs);
  // Returns an error if the client has not waited for the answer. It counts the
  // request as failed, so the sequence must not go on from it.
  absl::Status CheckAwaited(const Step& step) const;
  // Takes the state for the next request out of the slot.
  absl::Status KeepState(
      Step& step, absl::Span<const absl::Span<const std::byte>> outputs) const;
  void AnswerCall(Step& step, const absl::Status& status,
                  absl::Span<const absl::Span<const std::byte>> outputs) const;
  Work EndStep(const Step& step);
  void SetAlarm();
  void OnAlarm();

  const SequenceParts parts_;
  const SequencePlan& plan_;  // of parts_

  mutable absl::Mutex mutex_;
  SequenceQueue queue_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<InferenceCall*, std::shared_ptr<Step>> steps_
      ABSL_GUARDED_BY(mutex_);
  // The timer's next call, so that it is not asked twice.
  absl::Time alarm_ ABSL_GUARDED_BY(mutex_) = absl::InfiniteFuture();
};

}  // namespace gpupool::server
