#include "server/api/admin_service.h"

#include "server/api/unary.h"

namespace gpupool::server {

grpc::ServerUnaryReactor* AdminService::Drain(
    grpc::CallbackServerContext* context, const v1::DrainRequest* request,
    v1::DrainResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool stop = request->stop();
  control_->Drain(stop, [this, reactor, response,
                         stop](absl::StatusOr<v1::DrainResponse> result) {
    if (result.ok()) *response = *result;
    reactor->Finish(ToGrpc(result.status()));
    if (result.ok() && stop) hooks_.stop();
  });
  return reactor;
}

grpc::ServerUnaryReactor* AdminService::GetReconcileState(
    grpc::CallbackServerContext* context, const v1::GetReconcileStateRequest*,
    v1::ReconcileState* response) {
  *response = control_->GetReconcileState();
  return Reply(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* AdminService::GetServerInfo(
    grpc::CallbackServerContext* context, const v1::GetServerInfoRequest*,
    v1::ServerInfo* response) {
  *response = hooks_.info();
  return Reply(context, absl::OkStatus());
}

}  // namespace gpupool::server
