// Tells which user of this machine is at the other end of a TCP connection.
//
// The kernel knows it: it keeps the user of each socket. The peer's socket is
// looked up by the two addresses of the connection (sock_diag(7)).
//
//   * The user is that of the process that made the socket. A process that got
//     an open connection from another one, or changed its user since, still
//     counts as the maker.
//   * A socket that no process has open any more has no user. The kernel then
//     says 0, which must not pass for root, so such a peer is not known.
//   * The answer holds for this connection only. Ask once, when it is
//     accepted: its port may be another user's when it has ended.
//
// Thread-safety: any thread. It costs some 15 microseconds and never blocks.
#pragma once

#include <sys/types.h>

#include <optional>

#include "absl/status/status.h"

namespace gpupool::server {

struct PeerUser {
  std::optional<uid_t> uid;    // empty: not known
  bool other_machine = false;  // the connection comes over a network
};

// Returns who is at the other end of a connection of IPv4 or IPv6. A peer whose
// address is neither of the loopback network nor that of its own end is on
// another machine. The uid is not known if the client has closed its end, the
// connection has ended, or the system has no such lookup.
PeerUser PeerUserOf(int connection);

// Checks with a connection to this process that the system tells users.
// Unavailable, with the remedy, if it does not.
absl::Status CheckPeerUsers();

}  // namespace gpupool::server
