// Implements UsageService of gpupool.v1; usage.proto is its contract.
#pragma once

#include "gpupool/v1/usage.grpc.pb.h"

namespace gpupool::server {

struct ControlContext;

class UsageService : public v1::UsageService::CallbackService {
 public:
  // `control` must outlive the service.
  explicit UsageService(const ControlContext* control) : control_(control) {}

  grpc::ServerUnaryReactor* GetUsage(grpc::CallbackServerContext* context,
                                     const v1::GetUsageRequest* request,
                                     v1::GetUsageResponse* response) override;

 private:
  const ControlContext* const control_;
};

}  // namespace gpupool::server
