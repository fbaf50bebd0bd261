// Private to server/http/port: reads and drops what a client sends while it
// gets a stream, and before its connection closes. Closes the connection when
// the client has closed its side.
//
// Thread-safety: the thread of the port. Ownership: a member of the connection
// that is passed to each function. Operations keep that connection alive.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "server/http/port/client_stream.h"
#include "server/http/port/connection.h"

namespace gpupool::server {

class ClientWatch {
 public:
  using Connection = std::shared_ptr<HttpConnection>;

  // The stream must outlive the watch.
  explicit ClientWatch(ClientStream* stream) : stream_(stream) {}

  // Notices that the client goes away while a stream is sent.
  void WatchDuringStream(Connection connection);

  // Closes our side and waits until the client closes its own, because the
  // system would throw away an answer that the client has not read yet.
  void Linger(Connection connection);

  // Does nothing more. Call it when the connection is closed.
  void End() { ended_ = true; }

 private:
  void OnWatched(Connection connection, ClientStream::Code error, size_t bytes);
  void Drain(Connection connection);

  ClientStream* const stream_;
  std::string buffer_;
  uint64_t dropped_ = 0;        // bytes that nobody reads
  bool watching_ = false;       // WatchDuringStream reads
  bool lingering_ = false;      // Linger was called
  bool sending_ended_ = false;  // our side is closed
  bool ended_ = false;
};

}  // namespace gpupool::server
