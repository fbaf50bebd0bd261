// UsageService of the fake server. It knows tenants "a" and "b".
#pragma once

#include <grpcpp/grpcpp.h>

#include <cstdint>

#include "gpupool/v1/usage.grpc.pb.h"
#include "tests/client/testing/fake_server.h"

namespace gpupool::client {

class FakeUsage final : public v1::UsageService::Service {
 public:
  explicit FakeUsage(FakeState& state) : state_(state) {}

  // Returns two pages with one row each.
  grpc::Status GetUsage(grpc::ServerContext*,
                        const v1::GetUsageRequest* request,
                        v1::GetUsageResponse* response) override {
    absl::MutexLock lock(&state_.mutex);
    state_.usage_request = *request;
    v1::UsageRow& row = *response->add_rows();
    row.set_device_kind("cuda");
    row.set_activity(v1::TRAINING);
    row.set_device_seconds(5400);
    row.set_byte_seconds(3600.0 * (1 << 30));
    if (request->page_token().empty()) {
      row.set_tenant("team, \"a\"");
      row.set_job_id(7);
      row.set_model("digits");
      row.set_energy_joules(3.6e6);
      row.set_metered_device_seconds(5400);
      response->set_next_page_token("more");
    } else {
      row.set_tenant("b");  // a short run
      row.set_device_seconds(2.1);
      row.set_byte_seconds(5 << 20);
    }
    return grpc::Status::OK;
  }

  // Returns tenant "a", or two pages with one row each.
  grpc::Status GetQuota(grpc::ServerContext*,
                        const v1::GetQuotaRequest* request,
                        v1::GetQuotaResponse* response) override {
    absl::MutexLock lock(&state_.mutex);
    state_.quota_request = *request;
    v1::TenantQuota& row = *response->add_tenants();
    if (!request->page_token().empty()) {
      row.set_tenant("b");  // has nothing and no limits
      return grpc::Status::OK;
    }
    row.set_tenant("a");
    row.mutable_jobs()->set_used(3);
    row.mutable_jobs()->set_limit(50);
    row.mutable_devices()->set_used(1);
    row.mutable_device_bytes()->set_used(512);
    row.mutable_models()->set_used(2);
    row.mutable_models()->set_limit(4);
    row.mutable_stored_bytes()->set_used(1536);
    row.mutable_stored_bytes()->set_limit(uint64_t{2} << 30);
    if (request->tenant().empty()) response->set_next_page_token("more");
    return grpc::Status::OK;
  }

 private:
  FakeState& state_;
};

}  // namespace gpupool::client
