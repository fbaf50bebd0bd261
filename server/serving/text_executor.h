// Answers the calls of a model of texts, which the server computes by itself.
// Requests are computed one after the other, in the order in which they came,
// each by itself. A request counts as a batch of its rows.
//
// Thread-safety: any thread. Ownership: held by shared_ptr, because the threads
// call back. Calls are borrowed until their OnAnswer.
//
// Invariants
//  1. A call is in queue_, is computed, or about to be answered.
//  2. working_ is true exactly while a Work is posted or runs.
//  3. Nothing that may call back happens with mutex_ held.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "server/serving/call_executor.h"
#include "server/serving/serving_observer.h"
#include "server/serving/tensor/tensor_view.h"
#include "server/serving/text/text_runner.h"
#include "server/serving/text/text_threads.h"

namespace gpupool::server {

struct TextParts {
  std::string label;  // the model in messages: "'words' version 1"
  std::shared_ptr<const TextRunner> runner;
  std::vector<TensorFormat> inputs;
  std::vector<TensorFormat> outputs;
  uint32_t max_batch_size = 1;
  uint32_t max_queue_size = 0;
  TextThreads* threads = nullptr;             // outlives the executor
  std::unique_ptr<VersionObserver> observer;  // may be null
};

class TextExecutor : public CallExecutor,
                     public std::enable_shared_from_this<TextExecutor> {
 public:
  explicit TextExecutor(TextParts parts);

  // Errors of the call's OnAnswer:
  //   * InvalidArgument: the values do not fit a node, or an output has another
  //     shape than the model declares; names it
  //   * ResourceExhausted: the values are too large
  //   * Unavailable: too many requests wait, or its time in the queue is over
  //   * DeadlineExceeded: its deadline has passed
  //   * the status of Close
  void Enqueue(InferenceCall* call) override;
  void Cancel(InferenceCall* call) override;
  // Changes nothing: what waits is answered.
  void Drain() override {}
  void Close(const absl::Status& status) override;
  void CountRefused(absl::StatusCode code) override;
  void RecordCache(const CacheSample& sample) override;
  const VersionStatistics& statistics() const override { return statistics_; }

 private:
  struct Waiting {
    InferenceCall* call = nullptr;
    absl::Time arrival;
  };
  // An answer, and the points in time on its way.
  struct Answer {
    absl::Status status;
    std::vector<std::string> outputs;
    std::vector<std::vector<int64_t>> shapes;  // of one row
    absl::Time read, computed, written;
  };

  // Computes the first call that waits, and asks for the next turn.
  void Work();
  absl::Status CheckTime(const InferenceCall& call, absl::Time now) const;
  Answer Compute(const InferenceCall& call) const;
  absl::StatusOr<TextTensor> ReadInput(const InferenceCall& call, size_t index,
                                       TextMemory& memory) const;
  absl::Status WriteOutput(const TextTensor& tensor, size_t index,
                           uint32_t rows, Answer& answer) const;
  void Refuse(const Waiting& waiting, const absl::Status& status);
  void Finish(const Waiting& waiting, absl::Time taken, Answer answer);
  void Record(const RequestSample& sample);
  void ReportLength() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const TextParts parts_;
  VersionStatistics statistics_;
  absl::Mutex mutex_;
  std::deque<Waiting> queue_ ABSL_GUARDED_BY(mutex_);
  bool working_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status closed_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
