#include "server/api/usage_service.h"

#include "server/api/unary.h"

namespace gpupool::server {

grpc::ServerUnaryReactor* UsageService::GetUsage(
    grpc::CallbackServerContext* context, const v1::GetUsageRequest* request,
    v1::GetUsageResponse* response) {
  return Reply(context, control_->GetUsage(*request), response);
}

}  // namespace gpupool::server
