// Private to server/http/port: a socket that listens.
//
// Thread-safety: any thread.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace gpupool::server {

struct ListeningSocket {
  int socket = -1;  // the caller closes it
  int port = 0;
  bool ip6 = false;
};

// Listens on a port of an address, or of a name of this machine; port 0 is any
// free one. Connections inherit TCP_NODELAY and the keepalive by which the
// system notices in about a minute that a client vanished. InvalidArgument for
// an unusable address, Unavailable when the port is taken; both name address
// and port.
absl::StatusOr<ListeningSocket> Listen(const std::string& address, int port);

}  // namespace gpupool::server
