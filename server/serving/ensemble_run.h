// One request to an ensemble on its way through the steps. Each step is a call
// of its own to the executor of the step's version. A step starts when all its
// inputs are there, so independent steps run at the same time.
//
// Inputs of the ensemble stay in the client's memory. What a step gives is
// copied out of its slot once, and all steps that read it share the copy.
//
// Thread-safety: any thread. Ownership: held by shared_ptr. The request's call
// is borrowed until Answer; the versions are pinned until their steps have
// ended.
//
// Invariants
//  1. unanswered_ counts the steps that were started and have not ended. The
//     run ends when it becomes 0.
//  2. After the first error no step starts, and the others are cancelled.
//  3. Nothing that may call back happens with mutex_ held.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "server/serving/ensemble_binding.h"
#include "server/serving/inference_call.h"
#include "server/serving/model_registry.h"

namespace gpupool::server {

// Sums over the steps of a run, which may be more than its own time.
struct EnsembleTimes {
  absl::Duration queue, copy_in, compute, copy_out;
};

class EnsembleRun : public std::enable_shared_from_this<EnsembleRun> {
 public:
  // Receives the end, once, on any thread. Must call Answer.
  using Ended =
      std::function<void(EnsembleRun& run, const absl::Status& status)>;

  // `versions` has one for each step.
  EnsembleRun(std::shared_ptr<const EnsembleBinding> binding,
              std::vector<VersionHandle> versions, InferenceCall* call,
              Ended ended);
  ~EnsembleRun();

  // Starts the first steps. `ended` may be called before it returns.
  void Start();
  // Takes waiting steps out of their queues. The run ends with `status` when
  // the others have been answered. No-op after the first error.
  void Cancel(const absl::Status& status);

  // Returns the sums. Call it after the end.
  EnsembleTimes times() const;
  // Fills in the call's steps and outputs, and calls its OnAnswer.
  void Answer(const absl::Status& status);

 private:
  class StepCall;
  // A tensor that a step has given.
  struct Tensor {
    std::vector<int64_t> row_shape;
    std::string bytes;  // in the type of requests
    std::string held;   // in HeldType, for outputs of another type
  };
  // A step to take out of a queue.
  struct Waiting {
    VersionHandle version;
    StepCall* step = nullptr;
  };

  absl::Status Prepare(StepCall& step, const ServedVersion& version);
  void StartStep(size_t index);
  void TakeAnswer(StepCall& step, const absl::Status& status,
                  absl::Span<const absl::Span<const std::byte>> outputs);
  void KeepOutputs(const StepCall& step,
                   absl::Span<const absl::Span<const std::byte>> outputs);
  void EndStep(StepCall& step, const absl::Status& status);
  std::vector<size_t> NextSteps(size_t index)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Sets the error and returns the steps that may wait in queues.
  std::vector<Waiting> Fail(const absl::Status& status)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static void TakeOut(const std::vector<Waiting>& waiting);
  void TellSteps() const;

  const std::shared_ptr<const EnsembleBinding> binding_;
  InferenceCall* const call_;
  const Ended ended_;
  std::vector<std::unique_ptr<StepCall>> steps_;
  // By tensor of the graph. Its step writes an entry before it ends, and nobody
  // reads it before that.
  std::vector<Tensor> tensors_;

  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);  // the first error
  size_t unanswered_ ABSL_GUARDED_BY(mutex_) = 0;
  std::vector<int> missing_ ABSL_GUARDED_BY(mutex_);  // inputs, by step
};

}  // namespace gpupool::server
