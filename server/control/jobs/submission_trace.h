// The span of a SubmitJob or SubmitArray, from the rpc's begin to its answer,
// and how the jobs that come of it join its trace.
//
// Thread-safety: one thread at a time. Ownership: held by the steps of the
// submission; the tracer must outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/control/calls/callback.h"
#include "server/trace/tracer.h"

namespace gpupool::v1 {
class Job;
}  // namespace gpupool::v1

namespace gpupool::server {

class SubmissionTrace {
 public:
  // Returns null when the submission is not traced; `tracer` may be null.
  // `method`, a literal, is the name of the method.
  static std::shared_ptr<SubmissionTrace> Begin(Tracer* tracer,
                                                const TraceHeaders& headers,
                                                absl::string_view method);

  // Writes the span into the row of a new job, whose spans become its children.
  void Mark(v1::Job* job) const;
  // Adds a child for the time in which the meta worker planned.
  void Planned(absl::Time start, const absl::Status& status);
  // Hands the span to the tracer. `id`: of the job or array; 0: there is none.
  void End(const absl::Status& status, uint64_t id);

 private:
  SubmissionTrace(Tracer* tracer, OpenSpan open, absl::string_view method);

  Tracer* const tracer_;
  const OpenSpan open_;
  const absl::string_view method_;
  const absl::Time begin_;
};

using SubmissionTracePtr = std::shared_ptr<SubmissionTrace>;  // null: no trace

// Adds the child "plan" if there is a trace.
inline void TellPlanned(const SubmissionTracePtr& trace, absl::Time start,
                        const absl::Status& status) {
  if (trace != nullptr) trace->Planned(start, status);
}

// Returns a callback that ends the trace and calls `callback`. `Row` is a
// v1::Job or a v1::JobArray.
template <typename Row>
Callback<Row> EndTraceIn(SubmissionTracePtr trace, Callback<Row> callback) {
  if (trace == nullptr) return callback;
  return [trace = std::move(trace),
          callback = std::move(callback)](absl::StatusOr<Row> result) {
    trace->End(result.status(), result.ok() ? result->id() : 0);
    callback(std::move(result));
  };
}

}  // namespace gpupool::server
