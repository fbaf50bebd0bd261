// A port that speaks HTTP/1.1 and HTTP/1.0, plain or with TLS. One thread reads
// and writes all connections and never blocks. Requests are answered on threads
// by their route's lane (router.h).
//
// The port defends itself against clients:
//   * limits of connections, in total and for each client; when there are
//     nearly as many as may be, the one that is idle for longest is closed
//   * limits of TLS handshakes at a time, beyond which they wait
//   * limits of the bytes of headers and bodies, of all bodies in memory, and
//     of all large answers that clients have not taken
//   * deadlines of everything that a client does (HttpDeadlines)
//   * requests that can be read in two ways are refused, and a connection
//     closes after a request whose body was not read
//
// When the process has as many open files as it may, or the system refuses a
// connection for another reason, the port waits for 100 ms and goes on.
//
// Thread-safety: Start, BeginStop and the destructor belong to one thread.
// Ownership: owns its threads. What the routes call must outlive the port.
#pragma once

#include <openssl/ssl.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/http/port/connection_counts.h"
#include "server/http/port/http_deadlines.h"
#include "server/http/port/router.h"

namespace gpupool::server {

struct HttpPortOptions {
  std::string address = "127.0.0.1";
  int port = 0;  // 0: any free one
  // The total is lowered to half of the files that the process may still open
  // at the start, but not below 8.
  ConnectionLimits connections = {};
  // A connection is not closed to make room before it is idle for so long.
  absl::Duration least_idle = absl::Seconds(1);
  // Handshakes of TLS at a time; others wait.
  ConnectionLimits handshakes = {.total = 256, .by_client = 16};
  HttpDeadlines deadlines = {};
  // Bytes of all answers above 64 KiB that clients have not taken.
  uint64_t answer_bytes = uint64_t{1} << 30;
  // Threads of each lane but kHere.
  std::array<size_t, kLanes> threads = {0, 1, 1, 1, 1};
  // Asks, once for each connection, whose the other end is.
  bool asks_users = false;
  // Prepares TLS and returns whether that went well. Null: plain HTTP.
  std::function<bool(SSL_CTX&)> set_up_tls = nullptr;
};

class HttpPort {
 public:
  // Listens and serves. InvalidArgument for an unusable address, Unavailable
  // when the port is taken; both name address and port.
  static absl::StatusOr<std::unique_ptr<HttpPort>> Start(
      const HttpPortOptions& options, HttpRouter router);

  // Stops. Answers that are being made are still sent.
  ~HttpPort();

  // Accepts no more connections, closes the idle ones, and lets each of the
  // others end after its answer.
  void BeginStop();

  int port() const;

 private:
  class Impl;
  explicit HttpPort(std::unique_ptr<Impl> impl);

  const std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::server
