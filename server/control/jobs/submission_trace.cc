#include "server/control/jobs/submission_trace.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/time/clock.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::server {
namespace {

// Returns the name of the span of a submission: a literal.
absl::string_view SpanNameOf(absl::string_view method) {
  return method == "SubmitJob" ? "gpupool.v1.JobService/SubmitJob"
                               : "gpupool.v1.JobService/SubmitArray";
}

}  // namespace

SubmissionTrace::SubmissionTrace(Tracer* tracer, OpenSpan open,
                                 absl::string_view method)
    : tracer_(tracer),
      open_(std::move(open)),
      method_(method),
      begin_(absl::Now()) {}

SubmissionTracePtr SubmissionTrace::Begin(Tracer* tracer,
                                          const TraceHeaders& headers,
                                          absl::string_view method) {
  if (tracer == nullptr) return nullptr;
  std::optional<OpenSpan> open = tracer->Begin(headers);
  if (!open.has_value()) return nullptr;
  return absl::WrapUnique(
      new SubmissionTrace(tracer, *std::move(open), method));
}

void SubmissionTrace::Mark(v1::Job* job) const {
  job->set_trace_parent(
      TraceParentOf({.trace = open_.trace, .span = open_.id, .sampled = true}));
  job->set_trace_state(open_.state);
}

void SubmissionTrace::Planned(absl::Time start, const absl::Status& status) {
  Span span = ChildOf(open_, tracer_->NewSpan(), "plan", {start, absl::Now()});
  span.failed = !status.ok();
  if (span.failed) span.error = std::string(status.message());
  tracer_->Add(std::move(span));
}

void SubmissionTrace::End(const absl::Status& status, uint64_t id) {
  Span span = ServerSpanOf(open_, SpanNameOf(method_), {begin_, absl::Now()},
                           status.code());
  if (id != 0) {
    AddAttribute(&span,
                 method_ == "SubmitJob" ? "gpupool.job.id" : "gpupool.array.id",
                 static_cast<int64_t>(id));
  }
  if (span.failed) span.error = std::string(status.message());
  tracer_->Add(std::move(span));
}

}  // namespace gpupool::server
