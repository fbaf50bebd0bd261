#include "server/api/services/usage_service.h"

#include "server/api/rpc/unary.h"
#include "server/control/calls/context.h"
#include "server/store/store.h"

namespace gpupool::server {

grpc::ServerUnaryReactor* UsageService::GetUsage(
    grpc::CallbackServerContext* context, const v1::GetUsageRequest* request,
    v1::GetUsageResponse* response) {
  return Reply(context, control_->store->GetUsage(*request, control_->now()),
               response);
}

}  // namespace gpupool::server
