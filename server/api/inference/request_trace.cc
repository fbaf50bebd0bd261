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
  spans.reserve(6);
  spans.push_back(Root(status, facts, now));
  AddStages(now, &spans);
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
    AddAttribute(&root, "gpupool.device", facts.version->device());
    AddAttribute(&root, "gpupool.rows", int64_t{facts.rows});
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

// Adds the stages that the request reached. The last of them ends now.
void RequestTrace::AddStages(absl::Time now, std::vector<Span>* spans) {
  const bool queued = IsReached(stages_.arrival);
  const bool launched = IsReached(stages_.taken);
  spans->push_back(Stage("check", {begin_, queued ? stages_.arrival : now}));
  if (queued) {
    spans->push_back(
        Stage("queue", {stages_.arrival, launched ? stages_.taken : now}));
  }
  if (!launched) return;
  spans->push_back(Stage("copy-in", {stages_.taken, stages_.submitted}));
  spans->push_back(Compute());
  spans->push_back(Stage("answer", {stages_.answered, now}));
}

// Returns the span of the time in the engine. The worker tells how long it was
// and how long the batch waited there. The rest is the way to the worker and
// back, which count as equally long.
Span RequestTrace::Compute() {
  const absl::Duration way =
      stages_.answered - stages_.submitted - stages_.wait - stages_.compute;
  const absl::Time start = stages_.submitted +
                           std::max(way / 2, absl::ZeroDuration()) +
                           stages_.wait;
  Span span = Stage("compute", {start, start + stages_.compute});
  AddAttribute(&span, "gpupool.device_wait_seconds",
               absl::ToDoubleSeconds(stages_.wait));
  return span;
}

}  // namespace gpupool::server
