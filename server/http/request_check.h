// Checks of the headers of requests that call an rpc.
//
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "server/http/port/http_request.h"

namespace gpupool::server {

// Limits that a client may set. A unary call keeps one of a few threads until
// it ends.
inline constexpr absl::Duration kLongestCall = absl::Minutes(10);
inline constexpr absl::Duration kLongestStream = absl::Hours(24);

// Returns true for application/json, with or without parameters. A page of
// another site cannot send this type unless the server permits it.
bool IsJsonType(absl::string_view content_type);

// Returns true for an address of the loopback interface, or a name for it.
bool IsLoopback(absl::string_view host);

// The hosts whose pages may call the server. Any other site could point a name
// of its own at the server (DNS rebinding), but not an address.
struct TrustedHosts {
  // The server listens on a loopback address only: names of that one. Otherwise
  // also every IP address and the `names`.
  bool loopback_only = true;
  std::vector<std::string> names;  // of this machine
};

// Refuses requests that a web page of another origin makes: PermissionDenied
// when `origin`, which may be empty, has another host and port than `host`, and
// when `host` is not trusted.
absl::Status CheckOrigin(absl::string_view origin, absl::string_view host,
                         const TrustedHosts& trusted);

struct TimeLimits {
  absl::Duration otherwise;  // of a call that sets none; may exceed `longest`
  absl::Duration longest;    // that a call may set; whole minutes
};

// Returns the time limit of a call, by the headers grpc-timeout ("10S", "500m")
// and X-Timeout-Ms ("500"), either of which may be empty. Without both:
// `limits.otherwise`. InvalidArgument for a malformed header, both headers, and
// a limit of 0 or more than `limits.longest`.
absl::StatusOr<absl::Duration> TimeLimitOf(absl::string_view grpc_timeout,
                                           absl::string_view timeout_ms,
                                           const TimeLimits& limits);

// Returns the same for the headers of a request. InvalidArgument also if one of
// them is there more than once.
absl::StatusOr<absl::Duration> TimeLimitOf(const HttpRequest& request,
                                           const TimeLimits& limits);

}  // namespace gpupool::server
