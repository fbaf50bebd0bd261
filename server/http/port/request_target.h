// The target of a request line: "/v2/models/a%20b?x=1".
//
// Pure function.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

struct RequestTarget {
  std::string host;   // with its port; empty in the form without a host
  std::string path;   // decoded
  std::string query;  // as it was sent, without the '?'
};

// Returns the parts of a target. The form with a scheme and a host, which
// proxies get, is read as well. A '%' without two digits stays as it is.
// InvalidArgument for a path that is not UTF-8, and for a slash as "%2F": a
// proxy that guards paths would take it for a part of a name.
absl::StatusOr<RequestTarget> ReadTarget(absl::string_view target);

}  // namespace gpupool::server
