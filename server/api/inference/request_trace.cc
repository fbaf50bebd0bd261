#include "server/api/inference/request_trace.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/memory/memory.h"
#include "absl/time/clock.h"
#include "engine/base/utf8.h"

namespace gpupool::server {
namespace {

// The longest text of a request that a span keeps.
constexpr size_t kLongestFact = 256;

std::string Shortened(absl::string_view text) {
  return std::string(engine::CutUtf8({text.data(), text.size()}, kLongestFact));
}

bool IsReached(absl::Time time) { return time != absl::InfinitePast(); }

}  // namespace

RequestTrace::RequestTrace(Tracer* tracer, OpenSpan open,
                           absl::string_view name)
    : tracer_(tracer),
      open_(std::move(open)),
      name_(name),
      begin_(absl::Now()) {}

std::unique_ptr<RequestTrace> RequestTrace::Begin(Tracer* tracer,
                                                  const TraceHeaders& headers,
                                                  absl::string_view name) {
  if (tracer == nullptr) return nullptr;
  std::optional<OpenSpan> open = tracer->Begin(headers);
  if (!open.has_value()) return nullptr;
  return absl::WrapUnique(new RequestTrace(tracer, *std::move(open), name));
}

void RequestTrace::End(const absl::Status& status, const Facts& facts) {
  const absl::Time now = absl::Now();
  std::vector<Span> spans;
  spans.reserve(6 * (1 + steps_.size()));
  spans.push_back(Root(status, facts, now));
  AddCheck(now, &spans);
  if (steps_.empty()) {
    AddStages({.open = open_, .stages = stages_, .end = now}, &spans);
  }
  for (const StepTimes& step : steps_) AddStep(step, &spans);
  tracer_->Add(std::move(spans));
}

Span RequestTrace::Root(const absl::Status& status, const Facts& facts,
                        absl::Time now) const {
  Span root = ServerSpanOf(open_, name_, {begin_, now}, status.code());
  AddAttribute(&root, "gpupool.model", Shortened(facts.model));
  if (!facts.id.empty()) {
    AddAttribute(&root, "gpupool.request.id", Shortened(facts.id));
  }
  if (facts.version != nullptr) {
    const auto number = static_cast<int64_t>(facts.version->facts().version);
    AddAttribute(&root, "gpupool.version", number);
    if (facts.version->has_batcher()) {
      AddAttribute(&root, "gpupool.device", facts.version->device());
    }
    AddAttribute(&root, "gpupool.rows", int64_t{facts.rows});
  }
  if (facts.responses.has_value()) {
    AddAttribute(&root, "gpupool.responses", int64_t{*facts.responses});
  }
  if (IsReached(stages_.taken)) {
    AddAttribute(&root, "gpupool.batch.requests",
                 int64_t{stages_.batch_requests});
    AddAttribute(&root, "gpupool.batch.rows", int64_t{stages_.batch_rows});
  }
  if (stages_.tries > 1) {
    AddAttribute(&root, "gpupool.tries", int64_t{stages_.tries});
  }
  if (root.failed) root.error = Shortened(status.message());
  return root;
}

void RequestTrace::AddCheck(absl::Time now, std::vector<Span>* spans) {
  const bool queued = IsReached(stages_.arrival);
  spans->push_back(
      Stage(open_, "check", {begin_, queued ? stages_.arrival : now}));
}

// Adds the stages that were reached.
void RequestTrace::AddStages(const Reached& reached, std::vector<Span>* spans) {
  const auto& [open, stages, end] = reached;
  const bool launched = IsReached(stages.taken);
  if (IsReached(stages.arrival)) {
    spans->push_back(
        Stage(open, "queue", {stages.arrival, launched ? stages.taken : end}));
  }
  if (!launched) return;
  spans->push_back(Stage(open, "copy-in", {stages.taken, stages.submitted}));
  spans->push_back(Compute(open, stages));
  spans->push_back(Stage(open, "answer", {stages.answered, end}));
}

void RequestTrace::AddStep(const StepTimes& step, std::vector<Span>* spans) {
  const OpenSpan open{.trace = open_.trace,
                      .id = tracer_->NewSpan(),
                      .parent = open_.id,
                      .state = open_.state};
  Span span = ChildOf(open_, open.id, "step", {step.begin, step.end});
  AddAttribute(&span, "gpupool.model", Shortened(step.model));
  AddAttribute(&span, "gpupool.version", static_cast<int64_t>(step.version));
  AddAttribute(&span, "gpupool.device", step.device);
  if (IsReached(step.stages.taken)) {
    AddAttribute(&span, "gpupool.batch.requests",
                 int64_t{step.stages.batch_requests});
    AddAttribute(&span, "gpupool.batch.rows", int64_t{step.stages.batch_rows});
  }
  span.failed = step.code != absl::StatusCode::kOk;
  if (span.failed) span.error = absl::StatusCodeToString(step.code);
  spans->push_back(std::move(span));
  AddStages({.open = open, .stages = step.stages, .end = step.end}, spans);
}

// Returns the span of the time in the engine. The worker tells how long it was
// and how long the batch waited there. The rest is the way to the worker and
// back, which count as equally long.
Span RequestTrace::Compute(const OpenSpan& open, const StageTimes& stages) {
  const absl::Duration way =
      stages.answered - stages.submitted - stages.wait - stages.compute;
  const absl::Time start =
      stages.submitted + std::max(way / 2, absl::ZeroDuration()) + stages.wait;
  Span span = Stage(open, "compute", {start, start + stages.compute});
  AddAttribute(&span, "gpupool.device_wait_seconds",
               absl::ToDoubleSeconds(stages.wait));
  return span;
}

}  // namespace gpupool::server
