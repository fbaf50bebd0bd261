// Checks of the headers of requests that call an rpc.
//
// Pure functions.
#pragma once

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gpupool::server {

inline constexpr absl::Duration kLongestTimeout = absl::Hours(24);

// Returns true for application/json, with or without parameters. A page of
// another site cannot send this type unless the server permits it.
bool IsJsonType(absl::string_view content_type);

// Returns true for an address of the loopback interface, or a name for it.
bool IsLoopback(absl::string_view host);

// Refuses requests that a web page of another origin makes: PermissionDenied
// when `origin`, which may be empty, has another host and port than `host`.
// With `loopback_only`, `host` must be a name of the loopback interface, too,
// since another site may point its own name there (DNS rebinding).
absl::Status CheckOrigin(absl::string_view origin, absl::string_view host,
                         bool loopback_only);

// Returns the time limit of a call, by the headers grpc-timeout ("10S", "500m")
// and X-Timeout-Ms ("500"), either of which may be empty. Without both:
// `otherwise`. InvalidArgument for a malformed header, both headers, and a
// limit of 0 or more than kLongestTimeout.
absl::StatusOr<absl::Duration> TimeLimitOf(absl::string_view grpc_timeout,
                                           absl::string_view timeout_ms,
                                           absl::Duration otherwise);

}  // namespace gpupool::server
