// The gRPC endpoint: all services of the daemon on one port, and at a Unix
// socket if wanted, with health checking, of the server and of each service by
// name, and reflection.
//
// Thread-safety: any thread. Ownership: owns the gpupool.v1 services and the
// gRPC server. What they call must outlive it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/api/rpc/api_limits.h"
#include "server/api/services/admin_service.h"
#include "tls/tls_files.h"

namespace grpc {
class Channel;
class Service;
}  // namespace grpc

namespace gpupool::server {

class AccessGate;
class BlobStore;
class ModelRepository;
struct ControlContext;

struct ApiOptions {
  std::string listen;  // an IP address
  uint16_t port = 0;   // 0: any free port
  ApiLimits limits;
  tls::TlsFiles tls = {};
  unsigned tls_reload_seconds = 5;  // time between looks at the files of `tls`
  // Path of a Unix socket beside the port, without TLS; empty: none. Only the
  // user of this process and root can open it.
  std::string socket = {};
};

struct NamedService {
  std::string name;  // with its package
  grpc::Service* service = nullptr;
};

struct ApiDependencies {
  const ControlContext* control = nullptr;
  BlobStore* blobs = nullptr;
  // Models in folders, which LoadVersion reads when they are not stored; may be
  // null.
  ModelRepository* folders = nullptr;
  // Checks the calls that come over the port and the socket. Null: everybody
  // may call everything.
  AccessGate* gate = nullptr;
  AdminHooks hooks;
  std::vector<NamedService> more_services;  // the inference service
};

class ApiServer {
 public:
  // Listens, serves and sets the health to SERVING. Unavailable when the
  // address is not available, or the socket cannot be made. A file at the
  // socket's path is replaced if it is a socket.
  static absl::StatusOr<std::unique_ptr<ApiServer>> Start(
      const ApiOptions& options, ApiDependencies dependencies);
  ~ApiServer();

  uint16_t port() const;
  // Sets grpc.health.v1 for the server as a whole and for every service.
  void SetServing(bool serving);
  // Returns a channel to this server that needs no socket. Its calls are not
  // checked by the gate: check them before, and pass on `authorization`, by
  // which services know the tenant.
  std::shared_ptr<grpc::Channel> InProcessChannel();

  // Ends the streams, lets running calls finish for up to `grace`, then cancels
  // them. Blocks until no handler runs. Idempotent.
  void Stop(absl::Duration grace);

 private:
  class Impl;
  explicit ApiServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::server
