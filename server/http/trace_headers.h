// Private to server/http: passes the trace context of a request over HTTP on to
// its rpc.
//
// Thread-safety: that of the call.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace gpupool::server {

class GenericCall;
struct HttpRequest;

// The headers `traceparent` and `tracestate`; empty: absent.
struct TraceContextHeaders {
  std::string parent;
  std::string state;
};

// Returns both empty unless `traceparent` is there once. A `tracestate` may be
// divided into several headers, which are joined in their order (W3C Trace
// Context, 3.3).
TraceContextHeaders TraceContextOf(const HttpRequest& request);

// Adds the trace context of a request to the metadata of a call that has not
// started. Leaves out a header that MayBeMetadata refuses.
void PassTraceContext(const HttpRequest& request, GenericCall* call);

// Returns whether the value of a header may be one of metadata: printable ASCII
// of 1 to 512 bytes. gRPC ends the process for other bytes.
bool MayBeMetadata(absl::string_view value);

}  // namespace gpupool::server
