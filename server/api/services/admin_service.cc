#include "server/api/services/admin_service.h"

#include <memory>

#include "server/api/rpc/tenant_access.h"
#include "server/api/rpc/unary.h"
#include "server/api/transfer/database_backup.h"
#include "server/control/calls/context.h"
#include "server/control/devices/admin_requests.h"
#include "server/control/devices/device_board.h"

namespace gpupool::server {

grpc::ServerUnaryReactor* AdminService::Drain(
    grpc::CallbackServerContext* context, const v1::DrainRequest* request,
    v1::DrainResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const bool stop = request->stop();
  server::DrainServer(*control_, stop,
                      [this, reactor, response,
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
  *response = control_->board->Reconcile();
  return Reply(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* AdminService::GetServerInfo(
    grpc::CallbackServerContext* context, const v1::GetServerInfoRequest*,
    v1::ServerInfo* response) {
  *response = hooks_.info();
  response->set_dataset_limit_bytes(limits_.dataset_bytes);
  response->set_model_limit_bytes(limits_.model_file_bytes);
  return Reply(context, absl::OkStatus());
}

void AdminService::StopStreams() {
  backups_.StopAll();
  care_.Stop();
}

// Answers on the thread of DatabaseCare, minutes later.
grpc::ServerUnaryReactor* AdminService::CheckDatabase(
    grpc::CallbackServerContext* context, const v1::CheckDatabaseRequest*,
    v1::DatabaseReport* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::Status begun = care_.Check(
      [reactor, response](const absl::StatusOr<CheckReport>& report) {
        if (report.ok()) {
          response->set_schema_version(report->schema);
          for (const auto& [table, rows] : report->rows) {
            (*response->mutable_rows())[table] = rows;
          }
          for (const std::string& problem : report->problems) {
            response->add_problems(problem);
          }
        }
        reactor->Finish(ToGrpc(report.status()));
      });
  if (!begun.ok()) reactor->Finish(ToGrpc(begun));
  return reactor;
}

grpc::ServerWriteReactor<v1::BackUpDatabaseResponse>*
AdminService::BackUpDatabase(grpc::CallbackServerContext* context,
                             const v1::BackUpDatabaseRequest*) {
  return DatabaseBackup::Begin(
      std::make_shared<DatabaseBackup>(&care_),
      PlaceIn(&backups_, context, tenants_->CallerOf(*context)));
}

}  // namespace gpupool::server
