// The interface of what answers the calls of a served version: the batcher of a
// model, or the executor of an ensemble, of sequences or of a decoupled
// version.
//
// Thread-safety: any thread. Ownership: calls are borrowed until their
// OnAnswer.
#pragma once

#include "absl/status/status.h"
#include "server/serving/inference_call.h"
#include "server/serving/serving_observer.h"
#include "server/serving/statistics.h"

namespace gpupool::server {

class CallExecutor {
 public:
  virtual ~CallExecutor() = default;

  // Takes a call, whose inputs must have passed CheckInputs for the version.
  // Its OnAnswer is called once, possibly before this returns.
  virtual void Enqueue(InferenceCall* call) = 0;

  // Answers a call that waits with Cancelled. No-op for a call that does not
  // wait any more, which must not have been destroyed.
  virtual void Cancel(InferenceCall* call) = 0;

  // Asks a decoupled version for the next response to a call, whose last one
  // was read. May be called in OnResponse. No-op for a call that was answered,
  // which must not have been destroyed.
  virtual void Resume(InferenceCall* /*call*/) {}

  // Tells that the version is being unloaded.
  virtual void Drain() = 0;

  // Answers all waiting and all later calls with `status`.
  virtual void Close(const absl::Status& status) = 0;

  // Counts a request that was refused before it could be queued.
  virtual void CountRefused(absl::StatusCode code) = 0;

  // Records what the response cache did for a request.
  virtual void RecordCache(const CacheSample& sample) = 0;

  virtual const VersionStatistics& statistics() const = 0;
};

}  // namespace gpupool::server
