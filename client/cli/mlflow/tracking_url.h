// The URL of an MLflow tracking server. Pure; from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::client {

struct TrackingUrl {
  bool tls = false;
  std::string host;  // without the brackets of an IPv6 address
  uint16_t port = 0;
  std::string authority;  // host and port as they were written
  std::string prefix;     // path in front of "/api/2.0"; "" or "/mlflow"

  // Returns the URL without a slash at its end.
  std::string Text() const;
};

// Parses "http://HOST[:PORT][/PATH]", or the same with https. Without a port,
// it is that of the scheme. InvalidArgument, with what to write instead, for
// another scheme or none, a user name, a query, a fragment, a port that is no
// number from 1 to 65535, or characters that do not belong into a URL.
absl::StatusOr<TrackingUrl> ParseTrackingUrl(absl::string_view text);

// Returns the text with all bytes but letters, digits, "-", "_", "." and "~" as
// %XX, for the query of a URL.
std::string PercentEncoded(absl::string_view text);

}  // namespace gpupool::client
