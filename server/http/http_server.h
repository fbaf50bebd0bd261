// The HTTP port. It knows nothing of the daemon's inside: each request becomes
// an rpc on the given channel, usually an in-process one.
//
//   /v2                      the REST form of the open inference protocol
//                            (rest_routes.h)
//   GET /api                 every rpc of gpupool.v1 as JSON (json_gateway.h)
//   POST /api/SERVICE/METHOD
//   GET / and /web/...       the web page (web_routes.h)
//
// With a gate that checks calls every request of a caller who is not free needs
// the header "Authorization: Bearer TOKEN", except for the files of the web
// page and the probes (route_access.h).
//
// Limits, deadlines and threads are those of port/http_port.h: one thread
// serves all connections, and probes, other GETs of /v2, POSTs of /v2 and the
// API have threads of their own, so that none of them delays another.
//
// Thread-safety: Start and the destructor belong to one thread. Ownership:
// owns its threads; the destructor stops them and waits.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "tls/tls_files.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace gpupool::server {

class AccessGate;

struct HttpServerOptions {
  std::string address = "127.0.0.1";
  int port = 0;  // 0: any free one
  size_t max_body_bytes = 4 << 20;
  size_t rest_calls = 16;             // POSTs of /v2 at a time
  size_t rest_body_bytes = 64 << 20;  // of a POST of /v2
  size_t api_calls = 8;               // unary calls of the API at a time
  size_t api_streams = 16;            // streams of the API at a time
  // A stream that fails within this time fails with an HTTP status.
  absl::Duration stream_fails_within = absl::Seconds(1);
  std::vector<std::string> names;  // of this machine; see TrustedHosts
  tls::TlsFiles tls = {};          // the port takes TLS only if it is on
  size_t handshakes = 256;         // of TLS at a time
  // Checks each request by the method that it calls. Must outlive the server.
  // Null: everybody may call everything.
  AccessGate* gate = nullptr;
  // Time that calls in flight have to end when the server stops. Streams have
  // none.
  absl::Duration calls_end = absl::Seconds(1);
};

class HttpServer {
 public:
  // Listens and serves. InvalidArgument for an unusable address, Unavailable
  // when the port is taken; both name address and port. The errors of
  // tls::ReadServerFiles for files that cannot be used.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(
      const HttpServerOptions& options, std::shared_ptr<grpc::Channel> channel);
  ~HttpServer();

  int port() const;

 private:
  class Gateway;
  explicit HttpServer(std::unique_ptr<Gateway> gateway);

  const std::unique_ptr<Gateway> gateway_;
};

}  // namespace gpupool::server
