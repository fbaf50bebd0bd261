// Spans as messages of OTLP. Pure; any thread.
#pragma once

#include <string>

#include "absl/types/span.h"
#include "gpupool/otlp/v1/trace.pb.h"
#include "server/trace/span.h"

namespace gpupool::server {

// The longest text of an attribute or of an error, in bytes.
inline constexpr size_t kLongestSpanText = 1024;

// The process whose spans are sent.
struct TraceResource {
  std::string service_name;
  std::string service_version;
  std::string instance_id;  // differs between two runs of the server
};

// Adds the spans to an empty request. Longer texts are cut, never within a
// UTF-8 character. A span that ends before it starts, because the clock was set
// back, ends at its start.
void FillRequest(const TraceResource& resource, absl::Span<const Span> spans,
                 otlp::v1::ExportTraceRequest* request);

}  // namespace gpupool::server
