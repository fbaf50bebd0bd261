#include "server/api/services/job_access.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "server/api/rpc/tenant_access.h"
#include "server/control/calls/context.h"
#include "server/store/store.h"

namespace gpupool::server {

absl::StatusOr<Identity> JobAccess::CallerOf(
    const grpc::CallbackServerContext& context) const {
  return server::CallerOf(gate_, context);
}

absl::Status JobAccess::CheckJob(const grpc::CallbackServerContext& context,
                                 uint64_t id) const {
  ASSIGN_OR_RETURN(const Identity caller, CallerOf(context));
  return CheckJobOf(caller, id);
}

absl::Status JobAccess::CheckArray(const grpc::CallbackServerContext& context,
                                   uint64_t id) const {
  ASSIGN_OR_RETURN(const Identity caller, CallerOf(context));
  return CheckArrayOf(caller, id);
}

absl::Status JobAccess::CheckTenantOf(
    const grpc::CallbackServerContext& context, v1::JobSpec* spec) const {
  ASSIGN_OR_RETURN(const Identity caller, CallerOf(context));
  return AdoptTenant(caller, spec->mutable_tenant());
}

absl::Status JobAccess::CheckPrerequisites(
    const grpc::CallbackServerContext& context, const v1::JobSpec& spec) const {
  ASSIGN_OR_RETURN(const Identity caller, CallerOf(context));
  if (!caller.is_bound()) return absl::OkStatus();
  for (const uint64_t id : spec.after_ok()) {
    RETURN_IF_ERROR(CheckPrerequisite(caller, "after_ok", id));
  }
  for (const uint64_t id : spec.after_any()) {
    RETURN_IF_ERROR(CheckPrerequisite(caller, "after_any", id));
  }
  return absl::OkStatus();
}

absl::Status JobAccess::CheckNames(const grpc::CallbackServerContext& context,
                                   const v1::JobSpec& spec) const {
  ASSIGN_OR_RETURN(const Identity caller, CallerOf(context));
  return TenantAccess(control_, gate_).CheckJob(caller, spec);
}

std::function<bool(const v1::Dataset&)> JobAccess::DatasetsOf(
    const Identity& caller) {
  return [caller](const v1::Dataset& dataset) {
    return TenantAccess::MayUse(caller, dataset);
  };
}

absl::Status JobAccess::CheckFilter(const grpc::CallbackServerContext& context,
                                    std::string* tenant) const {
  ASSIGN_OR_RETURN(const Identity caller, CallerOf(context));
  if (!caller.is_bound()) return absl::OkStatus();
  return AdoptTenant(caller, tenant);
}

absl::Status JobAccess::CheckJobOf(const Identity& caller, uint64_t id) const {
  if (!caller.is_bound()) return absl::OkStatus();
  const auto job = control_->store->GetJob(id);
  if (!job.ok()) return job.status();
  if (MaySee(caller, job->spec().tenant())) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("there is no job ", id));
}

absl::Status JobAccess::CheckArrayOf(const Identity& caller,
                                     uint64_t id) const {
  if (!caller.is_bound()) return absl::OkStatus();
  const auto array = control_->store->GetArray(id);
  if (!array.ok()) return array.status();
  if (MaySee(caller, array->spec().tenant())) return absl::OkStatus();
  return absl::NotFoundError(absl::StrCat("there is no array ", id));
}

absl::Status JobAccess::CheckPrerequisite(const Identity& caller,
                                          const char* field,
                                          uint64_t id) const {
  absl::Status found = CheckJobOf(caller, id);
  if (absl::IsNotFound(found)) found = CheckArrayOf(caller, id);
  if (!absl::IsNotFound(found)) return found;
  return absl::NotFoundError(absl::StrCat(field, " names ", id,
                                          ", but there is no job or array ", id,
                                          "; see `gpupool jobs`"));
}

}  // namespace gpupool::server
