#include "server/http/trace_headers.h"

#include <algorithm>
#include <cstddef>

#include "server/http/generic_call.h"
#include "server/http/port/http_request.h"

namespace gpupool::server {
namespace {

constexpr size_t kLongestTraceHeader = 512;

}  // namespace

bool MayBeMetadata(absl::string_view value) {
  return !value.empty() && value.size() <= kLongestTraceHeader &&
         std::all_of(value.begin(), value.end(),
                     [](char c) { return c >= 0x20 && c <= 0x7e; });
}

TraceContextHeaders TraceContextOf(const HttpRequest& request) {
  return {std::string(request.Header("traceparent")),
          std::string(request.Header("tracestate"))};
}

void PassTraceContext(const TraceContextHeaders& headers, GenericCall* call) {
  if (!MayBeMetadata(headers.parent)) return;
  call->AddMetadata("traceparent", headers.parent);
  if (MayBeMetadata(headers.state)) {
    call->AddMetadata("tracestate", headers.state);
  }
}

}  // namespace gpupool::server
