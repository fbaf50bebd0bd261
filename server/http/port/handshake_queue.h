// Bounds the TLS handshakes at a time, in total and by client. Those beyond the
// bounds wait for their turn, so that clients with many connections at once are
// served, and those that dawdle delay only themselves.
//
// Thread-safety: one thread. Ownership: connections must end before they are
// destroyed.
#pragma once

#include <list>

#include "absl/container/flat_hash_map.h"
#include "server/http/port/connection_counts.h"

namespace gpupool::server {

class HttpConnection;

class HandshakeQueue {
 public:
  explicit HandshakeQueue(const ConnectionLimits& limits) : counts_(limits) {}

  // Returns whether the handshake may begin now. If not, the connection waits
  // until End returns it.
  bool Begin(HttpConnection* connection, const ClientAddress& client);

  // Ends the handshake of a connection, or its wait. Returns the connection
  // whose handshake may begin now; null if there is none. Does nothing for a
  // connection that has no handshake.
  HttpConnection* End(HttpConnection* connection);

 private:
  struct Waiting {
    HttpConnection* connection = nullptr;
    ClientAddress client;
  };

  ConnectionCounts counts_;
  absl::flat_hash_map<HttpConnection*, ClientAddress> running_;
  std::list<Waiting> waiting_;  // longest first
};

}  // namespace gpupool::server
