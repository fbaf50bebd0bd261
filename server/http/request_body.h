// Private to server/http: the body of a request without its compression.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/http/port/http_request.h"

namespace gpupool::server {

// Returns an error, for HTTP status 415, if the body has a Content-Encoding
// other than gzip, deflate and identity.
absl::Status CheckEncoding(const HttpRequest& request);

// Takes the body out of a request that CheckEncoding accepts, and unpacks it.
// A body in gzip may have several members (RFC 1952). Errors:
//   * ResourceExhausted: it has more than `most` bytes when it is unpacked
//   * InvalidArgument: it is damaged or ends early, or more follows it
absl::StatusOr<std::string> TakeBody(HttpRequest& request, size_t most);

}  // namespace gpupool::server
