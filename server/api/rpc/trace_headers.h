// Private to server/api: the trace context of an rpc, from its metadata.
#pragma once

#include <grpcpp/server_context.h>

#include "absl/strings/string_view.h"
#include "server/trace/trace_context.h"

namespace gpupool::server {

// Returns the headers, which are valid as long as the context. A header that
// came more than once counts as absent.
inline TraceHeaders TraceHeadersOf(const grpc::ServerContextBase& context) {
  const auto& metadata = context.client_metadata();
  const auto value = [&metadata](const char* name) {
    if (metadata.count(name) != 1) return absl::string_view();
    const grpc::string_ref text = metadata.find(name)->second;
    return absl::string_view(text.data(), text.size());
  };
  return {.parent = value("traceparent"), .state = value("tracestate")};
}

}  // namespace gpupool::server
