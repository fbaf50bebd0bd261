#include "server/http/port/handshake_queue.h"

#include <utility>

namespace gpupool::server {

bool HandshakeQueue::Begin(HttpConnection* connection,
                           const ClientAddress& client) {
  if (!counts_.Take(client)) {
    waiting_.push_back({connection, client});
    return false;
  }
  running_[connection] = client;
  return true;
}

HttpConnection* HandshakeQueue::End(HttpConnection* connection) {
  const auto ended = running_.find(connection);
  if (ended == running_.end()) {
    waiting_.remove_if([connection](const Waiting& waiting) {
      return waiting.connection == connection;
    });
    return nullptr;
  }
  counts_.GiveBack(ended->second);
  running_.erase(ended);
  // At most one fits in the place of the one that has ended.
  for (auto next = waiting_.begin(); next != waiting_.end(); ++next) {
    if (!counts_.Take(next->client)) continue;
    HttpConnection* const begins = next->connection;
    running_[begins] = std::move(next->client);
    waiting_.erase(next);
    return begins;
  }
  return nullptr;
}

}  // namespace gpupool::server
