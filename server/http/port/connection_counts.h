// Counts connections, in total and by client, and refuses those beyond limits.
//
// Thread-safety: one thread.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "server/auth/peer_user.h"

namespace gpupool::server {

struct ClientAddress {
  std::string text;  // "192.0.2.7", "2001:db8::1"
  // Clients of one group share a limit: an IPv4 address, or the 64 bits of an
  // IPv6 address that name a network, since a client there has all addresses
  // of it.
  std::string group;
  bool loopback = false;
  PeerUser user = {};  // not known if the port does not ask
};

// Returns the parts of an address of IPv4 or IPv6. An IPv4 address in the form
// of IPv6 is one of IPv4.
ClientAddress ClientAddressOf(const sockaddr_storage& address);

struct ConnectionLimits {
  size_t total = 4096;
  size_t by_client = 256;  // not for clients on this machine
};

class ConnectionCounts {
 public:
  explicit ConnectionCounts(const ConnectionLimits& limits);

  // Counts a connection and returns true, unless a limit is reached. Clients of
  // other machines leave some of the total for those on this one, so that they
  // never shut out its probes.
  bool Take(const ClientAddress& client);
  void GiveBack(const ClientAddress& client);

  size_t total() const { return total_; }
  const ConnectionLimits& limits() const { return limits_; }

 private:
  const ConnectionLimits limits_;
  size_t total_ = 0;
  absl::flat_hash_map<std::string, size_t> by_client_;
};

}  // namespace gpupool::server
