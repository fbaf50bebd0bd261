#include "server/api/rpc/grpc_port.h"

#include <unistd.h>

#include <utility>

#include "absl/memory/memory.h"
#include "engine/base/status_macros.h"
#include "server/auth/access_gate.h"

namespace gpupool::server {

absl::StatusOr<std::unique_ptr<GrpcPort>> GrpcPort::Listen(
    const std::string& address, uint16_t port) {
  ASSIGN_OR_RETURN(auto listener, TcpListener::Listen(address, port));
  return absl::WrapUnique(new GrpcPort(std::move(listener)));
}

void GrpcPort::AddTo(grpc::ServerBuilder* builder,
                     const CredentialsFor& credentials, AccessGate* gate) {
  if (gate == nullptr || !gate->asks_users()) {
    return AddLine(builder, credentials, nullptr);
  }
  // Unknown users, other machines, the server's user and root come first.
  for (size_t i = 0; i < 4 + kMostOthers; ++i) {
    AddLine(builder, credentials, std::make_shared<MethodGuard>(gate));
  }
  used_ = 1;
  LineOf({.other_machine = true});
  LineOf({.uid = geteuid()});
  LineOf({.uid = 0});
}

void GrpcPort::AddLine(grpc::ServerBuilder* builder,
                       const CredentialsFor& credentials,
                       std::shared_ptr<MethodGuard> guard) {
  auto acceptor = builder->experimental().AddExternalConnectionAcceptor(
      grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD,
      credentials(guard));
  lines_.push_back({std::move(acceptor), std::move(guard), {}});
}

GrpcPort::Line& GrpcPort::LineOf(const PeerUser& user) {
  for (size_t i = 0; i < used_; ++i) {
    if (lines_[i].user.uid == user.uid &&
        lines_[i].user.other_machine == user.other_machine) {
      return lines_[i];
    }
  }
  if (used_ == lines_.size()) return lines_.front();
  Line& line = lines_[used_++];
  line.user = user;
  line.guard->SetUser(user);
  return line;
}

void GrpcPort::Start() {
  listener_->Start([this](int connection) { Take(connection); });
}

void GrpcPort::Take(int connection) {
  const bool guarded = lines_.front().guard != nullptr;
  Line& line = guarded ? LineOf(PeerUserOf(connection)) : lines_.front();
  Acceptor::NewConnectionParameters parameters;
  parameters.listener_fd = listener_->socket();
  parameters.fd = connection;
  line.acceptor->HandleNewConnection(&parameters);
}

}  // namespace gpupool::server
