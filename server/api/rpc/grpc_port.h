// Private to server/api: the TCP port of a gRPC server. It accepts the
// connections itself, so that it learns of each, once, which user of this
// machine is at the other end (peer_user.h), and gives them to gRPC.
//
// gRPC tells the guard of a call nothing of its connection but by which
// acceptor it came. So each kind of caller has an acceptor with a guard of its
// own: the server's user, root, each of the first kMostOthers other users who
// come, the rest, and other machines. Nothing is kept by the port of a client,
// which may be another user's when its connection has ended.
//
// Thread-safety: one thread; Take runs on the thread of the port.
#pragma once

#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/api/rpc/method_guard.h"
#include "server/api/rpc/server_credentials.h"
#include "server/api/rpc/tcp_listener.h"
#include "server/auth/peer_user.h"

namespace gpupool::server {

class GrpcPort {
 public:
  // Other users with a guard of their own. Those who come later are denied in
  // the same way, without their uid in the text.
  static constexpr size_t kMostOthers = 8;

  // Listens at an IP address; port 0 is any free one. Unavailable when that is
  // not possible.
  static absl::StatusOr<std::unique_ptr<GrpcPort>> Listen(
      const std::string& address, uint16_t port);

  // Adds the port to a server. Its calls are checked by the gate, and their
  // users noted, if the gate asks for users; it may be null.
  void AddTo(grpc::ServerBuilder* builder, const CredentialsFor& credentials,
             AccessGate* gate);

  // Lets the server have connections. Call it when the server runs.
  void Start();
  // Accepts no more connections. Call it before the server shuts down.
  // Idempotent.
  void Stop() { listener_->Stop(); }

  int port() const { return listener_->port(); }

 private:
  using Acceptor = grpc::experimental::ExternalConnectionAcceptor;

  struct Line {
    std::unique_ptr<Acceptor> acceptor;
    std::shared_ptr<MethodGuard> guard;  // null: calls are not checked
    PeerUser user;
  };

  explicit GrpcPort(std::unique_ptr<TcpListener> listener)
      : listener_(std::move(listener)) {}

  void AddLine(grpc::ServerBuilder* builder, const CredentialsFor& credentials,
               std::shared_ptr<MethodGuard> guard);
  void Take(int connection);
  // Returns the line of a user, which may be a new one.
  Line& LineOf(const PeerUser& user);

  const std::unique_ptr<TcpListener> listener_;
  std::vector<Line> lines_;
  size_t used_ = 0;  // lines that have a user
};

}  // namespace gpupool::server
