#include "server/trace/tracer.h"

#include <chrono>
#include <random>
#include <utility>

namespace gpupool::server {
namespace {

// Attributes of the span of an rpc, with those that its caller adds.
constexpr size_t kMostServerAttributes = 12;

uint64_t RandomSeed() {
  std::random_device random;
  return uint64_t{random()} << 32 | random();
}

// Returns the time of a clock that is never set.
absl::Time SteadyNow() {
  const auto now = std::chrono::steady_clock::now();
  return absl::UnixEpoch() + absl::FromChrono(now.time_since_epoch());
}

// Returns whether an rpc with this code failed because of the server.
bool IsServerError(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDeadlineExceeded:
    case absl::StatusCode::kUnimplemented:
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDataLoss:
      return true;
    default:
      return false;
  }
}

}  // namespace

Tracer::Tracer(TracerOptions options)
    : limited_(std::move(options.limited)),
      ids_(RandomSeed(), RandomSeed()),
      sampler_(options.sampling, options.client_rate),
      exporter_(std::move(options.exporter)) {}

std::optional<OpenSpan> Tracer::Begin(const TraceHeaders& headers) {
  std::optional<SpanContext> caller = ReadTraceHeaders(headers);
  if (caller.has_value()) {
    if (!caller->sampled) return std::nullopt;
    if (!sampler_.AllowsClient(SteadyNow())) {
      limited_();
      return std::nullopt;
    }
    return OpenSpan{caller->trace, NewSpan(), caller->span,
                    std::move(caller->state)};
  }
  const uint64_t random = ids_.Next();
  if (!sampler_.Chooses(random)) return std::nullopt;
  return OpenSpan{ids_.TraceEndingWith(random), NewSpan(), SpanId(), ""};
}

void Tracer::Add(Span span) {
  std::vector<Span> spans;
  spans.push_back(std::move(span));
  Add(std::move(spans));
}

Span ServerSpanOf(const OpenSpan& open, absl::string_view name, Interval time,
                  absl::StatusCode code) {
  Span span = {.trace = open.trace,
               .id = open.id,
               .parent = open.parent,
               .remote_parent = IsSet(open.parent),
               .state = open.state,
               .name = name,
               .kind = Span::Kind::kServer,
               .start = time.start,
               .end = time.end,
               .failed = IsServerError(code)};
  const size_t slash = name.find('/');
  span.attributes.reserve(kMostServerAttributes);
  AddAttribute(&span, "rpc.system", "grpc");
  AddAttribute(&span, "rpc.service", name.substr(0, slash));
  AddAttribute(&span, "rpc.method", name.substr(slash + 1));
  AddAttribute(&span, "rpc.grpc.status_code", static_cast<int64_t>(code));
  return span;
}

Span ChildOf(const OpenSpan& open, SpanId id, absl::string_view name,
             Interval time) {
  return {.trace = open.trace,
          .id = id,
          .parent = open.id,
          .state = open.state,
          .name = name,
          .start = time.start,
          .end = time.end};
}

}  // namespace gpupool::server
