#include "server/http/trace_headers.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/http/generic_call.h"
#include "server/http/port/http_request.h"

namespace gpupool::server {
namespace {

// The server reads no longer headers from the metadata either.
constexpr size_t kLongestTraceHeader = 512;

}  // namespace

bool MayBeMetadata(absl::string_view value) {
  return !value.empty() && value.size() <= kLongestTraceHeader &&
         std::all_of(value.begin(), value.end(),
                     [](char c) { return c >= 0x20 && c <= 0x7e; });
}

TraceContextHeaders TraceContextOf(const HttpRequest& request) {
  if (request.Count("traceparent") != 1) return {};
  TraceContextHeaders headers{std::string(request.Header("traceparent")), ""};
  for (const HttpHeader& header : request.headers) {
    if (!absl::EqualsIgnoreCase(header.name, "tracestate")) continue;
    absl::StrAppend(&headers.state, headers.state.empty() ? "" : ",",
                    header.value);
  }
  return headers;
}

void PassTraceContext(const HttpRequest& request, GenericCall* call) {
  const TraceContextHeaders headers = TraceContextOf(request);
  if (!MayBeMetadata(headers.parent)) return;
  call->AddMetadata("traceparent", headers.parent);
  if (MayBeMetadata(headers.state)) {
    call->AddMetadata("tracestate", headers.state);
  }
}

}  // namespace gpupool::server
