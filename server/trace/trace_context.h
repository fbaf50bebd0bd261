// Identities of spans, and their form in the headers of W3C Trace Context
// (https://www.w3.org/TR/trace-context/).
//
// Pure functions; any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace gpupool::server {

// An id whose bytes are all 0 stands for none.
struct TraceId {
  std::array<uint8_t, 16> bytes = {};
  bool operator==(const TraceId&) const = default;
};
struct SpanId {
  std::array<uint8_t, 8> bytes = {};
  bool operator==(const SpanId&) const = default;
};

inline bool IsSet(const TraceId& id) { return id != TraceId(); }
inline bool IsSet(const SpanId& id) { return id != SpanId(); }

// The longest `traceparent` that is read. The HTTP port drops a longer one.
inline constexpr size_t kLongestTraceParent = 512;
// The longest `tracestate` that is passed on.
inline constexpr size_t kLongestTraceState = 512;

// A span as other processes know it.
struct SpanContext {
  TraceId trace;
  SpanId span;
  bool sampled = false;
  std::string state;  // `tracestate`; empty: none
};

// The headers of a request, as they came. Empty: absent.
struct TraceHeaders {
  absl::string_view parent;  // traceparent
  absl::string_view state;   // tracestate
};

// Returns the context of the caller's span; nothing for a header that is absent
// or malformed. A malformed `tracestate` alone is left out. Allocates nothing
// unless the caller's span is sampled and has a state.
std::optional<SpanContext> ReadTraceHeaders(const TraceHeaders& headers);

// Returns the value of `traceparent` for the span, in version 00.
std::string TraceParentOf(const SpanContext& context);

// Returns the id that a span of the trace has in every run of the server. It is
// made from `key`, which must differ from those of other spans of the trace.
SpanId DerivedSpanId(const TraceId& trace, absl::string_view key);

}  // namespace gpupool::server
