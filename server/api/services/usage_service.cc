#include "server/api/services/usage_service.h"

#include "server/api/rpc/unary.h"
#include "server/api/services/job_access.h"
#include "server/control/calls/context.h"
#include "server/store/store.h"

namespace gpupool::server {

grpc::ServerUnaryReactor* UsageService::GetUsage(
    grpc::CallbackServerContext* context, const v1::GetUsageRequest* request,
    v1::GetUsageResponse* response) {
  v1::GetUsageRequest filtered = *request;
  const absl::Status checked =
      access_->CheckFilter(*context, filtered.mutable_tenant());
  if (!checked.ok()) return Reply(context, checked);
  return Reply(context, control_->store->GetUsage(filtered, control_->now()),
               response);
}

}  // namespace gpupool::server
