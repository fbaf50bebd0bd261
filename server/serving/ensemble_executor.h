// Answers the calls of an ensemble by runs through its steps. Has no thread of
// its own: the thread that brings the answer of a step starts the next one.
//
// Thread-safety: any thread. Ownership: held by shared_ptr, because runs call
// back. Calls are borrowed until their OnAnswer.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/serving/call_executor.h"
#include "server/serving/ensemble_binding.h"
#include "server/serving/ensemble_run.h"

namespace gpupool::server {

class EnsembleExecutor : public CallExecutor,
                         public std::enable_shared_from_this<EnsembleExecutor> {
 public:
  // Most bytes that requests hold between their steps. A request that is alone
  // may hold more.
  static constexpr uint64_t kMaxHeldBytes = uint64_t{1} << 30;

  // `observer` may be null.
  EnsembleExecutor(std::shared_ptr<const EnsembleBinding> binding,
                   std::unique_ptr<VersionObserver> observer);

  // Replaces the binding for calls from now on. TakeTheSame must hold for the
  // old one and the new one.
  void SetBinding(std::shared_ptr<const EnsembleBinding> binding);

  // Errors of the call's OnAnswer:
  //   * ResourceExhausted: too many requests of the ensemble are worked on, or
  //     hold too many bytes
  //   * Unavailable: the version of a step is gone; Close was called
  //   * the error of a step, whose text begins with the step and its model
  void Enqueue(InferenceCall* call) override;
  void Cancel(InferenceCall* call) override;
  // Does nothing: the steps' own versions know whether they are unloaded.
  void Drain() override {}
  void Close(const absl::Status& status) override;
  void CountRefused(absl::StatusCode code) override;
  void RecordCache(const CacheSample& sample) override;
  const VersionStatistics& statistics() const override { return statistics_; }

  size_t in_flight() const;

 private:
  struct Entry {
    std::shared_ptr<EnsembleRun> run;
    uint64_t bytes = 0;
  };

  absl::Status Admit(uint64_t bytes) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void EndRun(InferenceCall* call, absl::Time arrival, EnsembleRun& run,
              const absl::Status& status);
  void Record(const RequestSample& sample);
  // Pins the versions of the steps.
  static absl::StatusOr<std::vector<VersionHandle>> Pin(
      const EnsembleBinding& binding);

  const uint32_t max_in_flight_;
  const std::string label_;
  const std::unique_ptr<VersionObserver> observer_;
  VersionStatistics statistics_;

  mutable absl::Mutex mutex_;
  std::shared_ptr<const EnsembleBinding> binding_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<InferenceCall*, Entry> runs_ ABSL_GUARDED_BY(mutex_);
  uint64_t held_bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // sum of all entries
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
