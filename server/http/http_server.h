// The HTTP port: liveness, readiness and metadata in the REST form of the open
// inference protocol. It knows nothing of the daemon's inside: each request
// becomes an rpc on the given channel, usually an in-process one.
//
//   GET /v2/health/live                      {"live":true}
//   GET /v2/health/ready                     {"ready":true}
//   GET /v2                                  {"name","version","extensions"}
//   GET /v2/models/M[/versions/V]            name, versions, tensors
//   GET /v2/models/M[/versions/V]/ready      {"name","ready"}
//   GET / and /web/...                       the web page (web_routes.h)
//
// Not live or not ready is status 400 with the same body. Errors are
// {"error":text} with the status of the rpc's code.
//
// Thread-safety: Start and the destructor belong to one thread. Ownership:
// owns its threads; the destructor stops them and waits.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace gpupool::server {

struct HttpServerOptions {
  std::string address = "127.0.0.1";
  int port = 0;  // 0: any free one
  size_t threads = 4;
  size_t max_body_bytes = 1 << 16;
  absl::Duration rpc_timeout = absl::Seconds(5);
};

class HttpServer {
 public:
  // Listens and serves. InvalidArgument for an unusable address, Unavailable
  // when the port is taken; both name address and port.
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
