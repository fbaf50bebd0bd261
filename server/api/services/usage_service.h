// Implements UsageService of gpupool.v1; usage.proto is its contract.
#pragma once

#include "gpupool/v1/usage.grpc.pb.h"

namespace gpupool::server {

class JobAccess;
struct ControlContext;

class UsageService : public v1::UsageService::CallbackService {
 public:
  // Both must outlive the service.
  UsageService(const ControlContext* control, const JobAccess* access)
      : control_(control), access_(access) {}

  grpc::ServerUnaryReactor* GetUsage(grpc::CallbackServerContext* context,
                                     const v1::GetUsageRequest* request,
                                     v1::GetUsageResponse* response) override;
  grpc::ServerUnaryReactor* GetQuota(grpc::CallbackServerContext* context,
                                     const v1::GetQuotaRequest* request,
                                     v1::GetQuotaResponse* response) override;

 private:
  const ControlContext* const control_;
  const JobAccess* const access_;
};

}  // namespace gpupool::server
