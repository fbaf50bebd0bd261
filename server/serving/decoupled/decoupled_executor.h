// Answers the calls of a decoupled version: a request has any number of
// responses. They come from a source, which is made of the answer of the
// batcher, or of the request alone. Has no thread of its own.
//
// A response is given when the front end has read the one before it (Resume),
// so a slow reader holds one response and its source, and nothing else.
//
// Thread-safety: any thread. Ownership: held by shared_ptr, because runs and
// the timer call back. Calls are borrowed until their OnAnswer.
//
// Invariants
//  1. runs_ has every call that was admitted and not answered.
//  2. One thread at a time makes the source of a run without a batcher, or
//  gives
//     responses (Run::giving), and only that one answers its call.
//  3. Nothing that may call back happens with mutex_ held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/serving/batcher.h"
#include "server/serving/call_executor.h"
#include "server/serving/decoupled/response_source.h"
#include "server/serving/model_registry.h"
#include "server/serving/serving_observer.h"
#include "server/serving/statistics.h"
#include "server/serving/wake_timer.h"

namespace gpupool::server {

// Makes the source of a call. `call` has the inputs; with a batcher it also has
// the shapes of the outputs.
using MakeSource =
    std::function<absl::StatusOr<std::unique_ptr<ResponseSource>>(
        const InferenceCall& call,
        absl::Span<const absl::Span<const std::byte>> outputs)>;

struct DecoupledParts {
  std::string label;          // for messages: "'digits' version 1"
  uint32_t max_requests = 0;  // that are worked on at a time
  uint64_t answer_bytes = 0;  // most bytes of the source of one request
  MakeSource make_source;
  WakeTimer* timer = nullptr;  // outlives the executor
  // Computes the answers; null: the source needs none.
  std::shared_ptr<Batcher> batches = nullptr;
  // Null: nobody observes, or the batcher's does.
  std::unique_ptr<VersionObserver> observer = nullptr;
};

class DecoupledExecutor
    : public CallExecutor,
      public std::enable_shared_from_this<DecoupledExecutor> {
 public:
  // Most bytes of sources at a time. A request that is alone may have more.
  static constexpr uint64_t kMaxHeldBytes = uint64_t{1} << 30;
  // Time for which a version that is being unloaded waits for a client that
  // reads no response.
  static constexpr absl::Duration kReaderPatience = absl::Seconds(10);

  explicit DecoupledExecutor(DecoupledParts parts);
  ~DecoupledExecutor() override;

  // Errors of the call's OnAnswer:
  //   * ResourceExhausted: too many requests are worked on, or their answers
  //     have too many bytes
  //   * Cancelled: by Cancel
  //   * Unavailable: Close was called; the version is being unloaded, and it
  //     has no batcher or the client has read no response for kReaderPatience
  //   * those of the batcher and of the source
  void Enqueue(InferenceCall* call) override;
  // Ends the call, also between two of its responses.
  void Cancel(InferenceCall* call) override;
  void Resume(InferenceCall* call) override;
  void Drain() override;
  void Close(const absl::Status& status) override;
  void CountRefused(absl::StatusCode code) override;
  void RecordCache(const CacheSample& sample) override;
  const VersionStatistics& statistics() const override;

  size_t in_flight() const;

 private:
  class Run;
  using RunHandle = std::shared_ptr<Run>;
  enum class Step { kNothing, kGive, kEnd };

  absl::Status Admit() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  RunHandle Find(InferenceCall* call) const;
  void Begin(const RunHandle& run);
  // Takes the answer of the batcher.
  void TakeAnswer(Run& run, const absl::Status& status,
                  absl::Span<const absl::Span<const std::byte>> outputs);
  void SetSource(Run& run,
                 absl::StatusOr<std::unique_ptr<ResponseSource>> source);
  // Notes the error of a run, unless it has one.
  void Fail(const RunHandle& run, const absl::Status& status);
  // Gives what is due, or ends the run.
  void Advance(const RunHandle& run);
  Step NextStep(Run& run, absl::Time now, absl::Time* alarm)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Give(Run& run);
  void End(const RunHandle& run);
  void SetAlarm(const RunHandle& run, absl::Time time);
  void Record(const Run& run, const absl::Status& status);
  VersionStatistics& own_statistics();

  const DecoupledParts parts_;
  VersionStatistics statistics_;  // without a batcher

  mutable absl::Mutex mutex_;
  absl::flat_hash_map<InferenceCall*, RunHandle> runs_ ABSL_GUARDED_BY(mutex_);
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
  bool draining_ ABSL_GUARDED_BY(mutex_) = false;
};

// Makes the executor of a version whose facts say which outputs a Loop stacks.
std::shared_ptr<CallExecutor> DecoupleLoop(const VersionFacts& facts,
                                           std::shared_ptr<Batcher> batcher,
                                           WakeTimer* timer);

}  // namespace gpupool::server
