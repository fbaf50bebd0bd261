// The Unix socket of a server on this machine. Its address is "unix:PATH".
//
// Thread-safety: any thread.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::client {

// Returns whether the address is that of a socket.
bool IsSocketAddress(absl::string_view address);

// Returns InvalidArgument for a socket address without a path, or with a path
// that is longer than the system allows.
absl::Status CheckSocketAddress(absl::string_view address);

// Returns the address in the form that gRPC wants: the path of a socket address
// with escapes, as in a URI. Other addresses stay as they are.
std::string TargetOf(absl::string_view address);

// Returns whether a server listens at the socket and may be trusted: this user
// or root has made it, in a folder that belongs to one of them and in which not
// everybody may write. Somebody else's socket could ask for a token.
bool IsOurSocket(const std::string& path);

}  // namespace gpupool::client
