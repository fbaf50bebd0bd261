#include "server/api/services/usage_service.h"

#include "server/api/rpc/unary.h"
#include "server/api/services/job_access.h"
#include "server/api/validation/convert.h"
#include "server/control/calls/context.h"
#include "server/control/upkeep/tenant_quota.h"
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

grpc::ServerUnaryReactor* UsageService::GetQuota(
    grpc::CallbackServerContext* context, const v1::GetQuotaRequest* request,
    v1::GetQuotaResponse* response) {
  v1::GetQuotaRequest filtered = *request;
  absl::Status checked =
      access_->CheckFilter(*context, filtered.mutable_tenant());
  if (checked.ok() && !filtered.tenant().empty()) {
    checked = CheckTenant(filtered.tenant());
  }
  if (!checked.ok()) return Reply(context, checked);
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  server::GetQuota(*control_, filtered, ReplyLater(reactor, response));
  return reactor;
}

}  // namespace gpupool::server
