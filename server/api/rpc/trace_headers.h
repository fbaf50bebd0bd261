// Private to server/api: the trace context of an rpc, from its metadata.
//
// Thread-safety: any thread.
#pragma once

#include <grpcpp/support/string_ref.h>

#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "server/trace/trace_context.h"

namespace gpupool::server {

using ClientMetadata = std::multimap<grpc::string_ref, grpc::string_ref>;

// Returns both headers empty unless `traceparent` is there once. A `tracestate`
// may be divided into several entries, which are joined in their order (W3C
// Trace Context, 3.3). It is left out if it is too long to be passed on.
// The headers are valid as long as the metadata and `*joined`, which is
// overwritten.
inline TraceHeaders TraceHeadersOf(const ClientMetadata& metadata,
                                   std::string* joined) {
  const auto text_of = [](const grpc::string_ref& text) {
    return absl::string_view(text.data(), text.size());
  };
  if (metadata.count("traceparent") != 1) return {};
  TraceHeaders headers;
  headers.parent = text_of(metadata.find("traceparent")->second);
  auto [entry, end] = metadata.equal_range("tracestate");
  if (entry == end) return headers;
  headers.state = text_of(entry->second);
  if (++entry == end) return headers;
  joined->assign(headers.state.data(), headers.state.size());
  headers.state = {};
  for (; entry != end; ++entry) {
    absl::StrAppend(joined, joined->empty() ? "" : ",", text_of(entry->second));
    if (joined->size() > kLongestTraceState) return headers;
  }
  headers.state = *joined;
  return headers;
}

}  // namespace gpupool::server
