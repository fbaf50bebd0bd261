// Implements AdminService of gpupool.v1; admin.proto is its contract.
#pragma once

#include <functional>
#include <string>

#include "gpupool/v1/admin.grpc.pb.h"
#include "server/api/rpc/api_limits.h"
#include "server/api/rpc/stream_registry.h"
#include "server/api/transfer/database_care.h"

namespace gpupool::server {

class TenantAccess;
struct ControlContext;

// Hooks into the process that the service runs in.
struct AdminHooks {
  std::function<v1::ServerInfo()> info;
  std::function<void()> stop;  // acts as SIGTERM does; returns at once
  std::string database;        // path of the file
};

class AdminService : public v1::AdminService::CallbackService {
 public:
  // `control` and `tenants` must outlive the service. GetServerInfo tells
  // `limits`.
  AdminService(const ControlContext* control, const TenantAccess* tenants,
               AdminHooks hooks, const ApiLimits& limits)
      : control_(control),
        tenants_(tenants),
        hooks_(std::move(hooks)),
        limits_(limits),
        care_(hooks_.database) {}

  void StopStreams();

  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainRequest* request,
                                  v1::DrainResponse* response) override;
  grpc::ServerUnaryReactor* GetReconcileState(
      grpc::CallbackServerContext* context,
      const v1::GetReconcileStateRequest* request,
      v1::ReconcileState* response) override;
  grpc::ServerUnaryReactor* GetServerInfo(
      grpc::CallbackServerContext* context,
      const v1::GetServerInfoRequest* request,
      v1::ServerInfo* response) override;
  grpc::ServerUnaryReactor* CheckDatabase(
      grpc::CallbackServerContext* context,
      const v1::CheckDatabaseRequest* request,
      v1::DatabaseReport* response) override;
  grpc::ServerWriteReactor<v1::BackUpDatabaseResponse>* BackUpDatabase(
      grpc::CallbackServerContext* context,
      const v1::BackUpDatabaseRequest* request) override;

 private:
  // Maximum number of backups at a time. Each holds a copy of the database.
  static constexpr size_t kMaxBackups = 2;

  const ControlContext* const control_;
  const TenantAccess* const tenants_;
  const AdminHooks hooks_;
  const ApiLimits limits_;
  StreamRegistry backups_{kMaxBackups, kStreamPatience};
  DatabaseCare care_;
};

}  // namespace gpupool::server
