#include "server/http/trace_headers.h"

#include <algorithm>
#include <cstddef>

#include "server/http/generic_call.h"

namespace gpupool::server {
namespace {

constexpr size_t kLongestTraceHeader = 512;

}  // namespace

bool MayBeMetadata(absl::string_view value) {
  return !value.empty() && value.size() <= kLongestTraceHeader &&
         std::all_of(value.begin(), value.end(),
                     [](char c) { return c >= 0x20 && c <= 0x7e; });
}

void PassTraceContext(const TraceContextHeaders& headers, GenericCall* call) {
  if (!MayBeMetadata(headers.parent)) return;
  call->AddMetadata("traceparent", headers.parent);
  if (MayBeMetadata(headers.state)) {
    call->AddMetadata("tracestate", headers.state);
  }
}

}  // namespace gpupool::server
