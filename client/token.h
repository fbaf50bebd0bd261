// The token that a client sends. client.h has the options.
//
// Thread-safety: any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "client/client.h"

namespace gpupool::client {

// Returns the token of the options; empty if there is none. Reads their file.
// InvalidArgument for a token or a file that is none.
absl::StatusOr<std::string> TokenOf(const TokenOptions& options);

// Returns whether the address, "host:port" or "unix:PATH", is on this machine
// whatever a name server says.
bool IsOnThisMachine(absl::string_view address);

// Checks that the token is not read on its way: the address is on this machine,
// the connection has TLS, or the options allow it. InvalidArgument otherwise.
absl::Status CheckTokenIsSafe(const ClientOptions& options);

}  // namespace gpupool::client
