// Traces of requests and jobs for OpenTelemetry: decides what is traced, gives
// out ids, and sends finished spans to a collector. Whoever may trace holds a
// pointer to a Tracer, which is null when tracing is off.
//
// Thread-safety: any thread. Nothing here blocks for long, so that a collector
// that is slow or away never delays a request.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/trace/random_ids.h"
#include "server/trace/sampler.h"
#include "server/trace/span.h"
#include "server/trace/span_exporter.h"
#include "server/trace/trace_context.h"

namespace gpupool::server {

struct TracerOptions {
  double sampling = 0;  // share of the requests without a caller's span, 0 .. 1
  // Requests a second that are traced because their caller traces.
  double client_rate = 100;
  SpanExporterOptions exporter;
  // Called for a request beyond `client_rate`, on any thread.
  std::function<void()> limited = [] {};
};

// The ids of a span that begins, and its place in its trace.
struct OpenSpan {
  TraceId trace;
  SpanId id;
  SpanId parent;      // not set: the root
  std::string state;  // `tracestate`
};

class Tracer {
 public:
  explicit Tracer(TracerOptions options);

  // Begins the first span of a request in this process, or returns nothing when
  // the request is not traced. Allocates nothing for a request whose caller
  // does not trace and that is not chosen.
  std::optional<OpenSpan> Begin(const TraceHeaders& headers);

  SpanId NewSpan() { return ids_.NextSpan(); }

  // Takes finished spans, at most a few of one request at a time.
  void Add(std::vector<Span> spans) { exporter_.Add(std::move(spans)); }
  void Add(Span span);

  // Share of the requests without a caller's span that are traced.
  double sampling() const { return sampler_.share(); }
  void SetSampling(double share) { sampler_.SetShare(share); }

 private:
  const std::function<void()> limited_;
  RandomIds ids_;
  Sampler sampler_;
  SpanExporter exporter_;
};

struct Interval {
  absl::Time start;
  absl::Time end;
};

// Returns the span of an rpc that has ended with this code, with the attributes
// of OpenTelemetry's conventions for gRPC. By them, it failed if the error is
// the server's. Its parent is in another process. `name` must be a literal,
// "SERVICE/METHOD".
Span ServerSpanOf(const OpenSpan& open, absl::string_view name, Interval time,
                  absl::StatusCode code);
// Returns a finished child of an open span. `name` must be a literal.
Span ChildOf(const OpenSpan& open, SpanId id, absl::string_view name,
             Interval time);

}  // namespace gpupool::server
