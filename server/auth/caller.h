// Where a call comes from, as the doors of the server tell it to the gate.
#pragma once

#include "absl/strings/string_view.h"
#include "server/auth/peer_user.h"

namespace gpupool::server {

// The way by which a call comes in.
enum class Door {
  kPort,    // gRPC or HTTP over TCP
  kSocket,  // the Unix socket, which only the server's user and root can open
};

struct Caller {
  Door door = Door::kPort;
  PeerUser user = {};  // of a call over TCP
  // Address for the audit log; empty if it is not known.
  absl::string_view peer = {};
  // Whether a door has asked the gate about this call already.
  bool admitted = false;
};

}  // namespace gpupool::server
