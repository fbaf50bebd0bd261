// Statuses of rpcs as HTTP has them. The only place that maps one to the other.
//
// Pure functions.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "server/http/port/http_response.h"

namespace gpupool::server {

// Returns the HTTP status of a code, by the table of google/rpc/code.proto.
int HttpStatusOf(absl::StatusCode code);

// Returns {"code":"NOT_FOUND","message":"text"}. Replaces bytes that are not
// UTF-8.
std::string StatusJson(absl::StatusCode code, absl::string_view message);

// Returns an answer of the REST protocol, {"error":"text"}, with this HTTP
// status. If it is 0, the code of the error decides.
HttpResponse ErrorAnswer(const absl::Status& error, int http_status = 0);

}  // namespace gpupool::server
