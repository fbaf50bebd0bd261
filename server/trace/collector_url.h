// The URL of a collector that takes OTLP over HTTP. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

struct CollectorUrl {
  bool tls = false;
  std::string host;  // without the brackets of an IPv6 address
  uint16_t port = 0;
  std::string authority;  // host and port as they were written
  std::string path;       // of the POST, such as "/v1/traces"

  // Returns the URL to which spans are sent.
  std::string Text() const;
};

// Parses "http://HOST[:PORT][/PATH]", or the same with https. The port is 4318
// by default. "/v1/traces" is added to the path unless it ends so. The error,
// InvalidArgument, tells what is allowed.
absl::StatusOr<CollectorUrl> ParseCollectorUrl(absl::string_view text);

}  // namespace gpupool::server
