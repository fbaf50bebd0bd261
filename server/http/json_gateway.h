// Every rpc of gpupool.v1 as JSON over HTTP. Made from the descriptors of the
// proto files: a new rpc is there at once.
//
//   GET  /api                  services, methods and their types
//   POST /api/SERVICE/METHOD   calls the method with the body as its request
//
// Unary methods answer one JSON object. Methods with a stream of responses
// answer one JSON object a line, or server-sent events if the request accepts
// text/event-stream. Errors are {"code","message"} with the HTTP status of the
// code. docs/http_api.md has the whole contract.
//
// Thread-safety: AddRoutes and Close belong to one thread. Ownership: must
// outlive the port.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/time/time.h"
#include "server/http/port/router.h"
#include "server/http/request_check.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace gpupool::server {

struct JsonGatewayOptions {
  size_t most_body_bytes = 0;
  size_t most_calls = 0;         // unary calls at a time
  size_t most_streams = 0;       // streams at a time
  absl::Duration unary_timeout;  // without a header that sets another
  // A stream that fails within this time fails with an HTTP status. After it
  // the headers are sent, so that the client sees that the stream is open.
  absl::Duration stream_fails_within;
  TrustedHosts trusted;  // hosts whose pages may call
};

class JsonGateway {
 public:
  JsonGateway(const JsonGatewayOptions& options,
              std::shared_ptr<grpc::Channel> channel);
  ~JsonGateway();

  void AddRoutes(HttpRouter* router);

  // Refuses further calls, cancels streams at once and unary calls that still
  // run at `end`, and waits until all are answered. Call it while the port's
  // threads run.
  void Close(absl::Time end);

 private:
  class Impl;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::server
