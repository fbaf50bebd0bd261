// A finished span: what is exported of a piece of work.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/trace/trace_context.h"

namespace gpupool::server {

// A fact about a span. The key is a literal.
struct SpanAttribute {
  absl::string_view key;
  std::variant<int64_t, double, std::string> value;
};

struct Span {
  enum class Kind { kInternal, kServer };

  TraceId trace;
  SpanId id;
  SpanId parent;               // not set: the root of its trace
  bool remote_parent = false;  // whether the parent is in another process
  std::string state = {};      // `tracestate`
  absl::string_view name;      // a literal
  Kind kind = Kind::kInternal;
  absl::Time start;
  absl::Time end;
  std::vector<SpanAttribute> attributes = {};
  bool failed = false;
  std::string error = {};  // why it failed
};

// Adds an attribute. The key is a literal.
void AddAttribute(Span* span, absl::string_view key, absl::string_view value);
void AddAttribute(Span* span, absl::string_view key, int64_t value);
void AddAttribute(Span* span, absl::string_view key, double value);

}  // namespace gpupool::server
