#include "server/api/rpc/tenant_access.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status_macros.h"
#include "server/api/rpc/method_guard.h"
#include "server/control/calls/context.h"
#include "server/control/records/rows.h"
#include "server/control/records/shared_versions.h"
#include "server/control/records/taken_names.h"
#include "server/serving/router.h"
#include "server/store/store.h"

namespace gpupool::server {

absl::StatusOr<Identity> CallerOf(AccessGate* gate,
                                  const grpc::CallbackServerContext& context) {
  if (gate == nullptr) return Identity{};
  return gate->Identify(AuthorizationIn(context.client_metadata()),
                        {.door = DoorOf(context.peer()), .admitted = true});
}

std::string TenantUploadKey(const std::string& tenant, const std::string& key) {
  if (tenant.empty() || key.empty()) return key;
  // No tenant has a line break in its name.
  return engine::Sha256Hex(absl::StrCat("upload\n", tenant, "\n", key));
}

// ----------------------------------------------------------------- models

bool TenantAccess::MayUse(const Identity& caller,
                          const v1::ModelVersion& version) {
  return version.tenant().empty() || version.shared() ||
         MaySee(caller, version.tenant());
}

bool TenantAccess::MayUse(const Identity& caller,
                          const ServedVersion& version) const {
  if (!caller.is_bound()) return true;
  const VersionFacts& facts = version.facts();
  if (version.ensemble() == nullptr) {
    return facts.tenant.empty() || MaySee(caller, facts.tenant) ||
           control_->shared_versions->Has(facts.id);
  }
  const auto& steps = version.ensemble()->steps;
  return std::all_of(steps.begin(), steps.end(), [&](const EnsembleStep& step) {
    return CheckModel(caller, step.model).ok();
  });
}

absl::Status TenantAccess::CheckModel(const Identity& caller,
                                      const std::string& model) const {
  if (!caller.is_bound()) return absl::OkStatus();
  const auto newest = control_->store->GetVersion(model, 0);
  if (newest.ok() && MayUse(caller, *newest)) return absl::OkStatus();
  if (newest.ok() || absl::IsNotFound(newest.status())) {
    return NoSuchModel(model);
  }
  return newest.status();
}

absl::Status TenantAccess::CheckModel(
    const grpc::CallbackServerContext& context,
    const std::string& model) const {
  ASSIGN_OR_RETURN(const Identity caller, CallerOf(context));
  return CheckModel(caller, model);
}

absl::Status TenantAccess::CheckMayChange(const Identity& caller,
                                          const std::string& model) const {
  if (!caller.is_bound()) return absl::OkStatus();
  const auto newest = control_->store->GetVersion(model, 0);
  if (absl::IsNotFound(newest.status())) return absl::OkStatus();
  RETURN_IF_ERROR(newest.status());
  if (!MayUse(caller, *newest)) return NoSuchModel(model);
  if (newest->tenant().empty() || MaySee(caller, newest->tenant())) {
    return absl::OkStatus();
  }
  return absl::PermissionDeniedError(absl::StrCat(
      "model \"", model,
      "\" is shared by another tenant, which alone may load and change it"));
}

absl::Status TenantAccess::CheckMayChange(
    const grpc::CallbackServerContext& context,
    const std::string& model) const {
  ASSIGN_OR_RETURN(const Identity caller, CallerOf(context));
  return CheckMayChange(caller, model);
}

absl::Status TenantAccess::CheckMayAdd(const Identity& caller,
                                       const std::string& model) const {
  if (!caller.is_bound()) return absl::OkStatus();
  const auto newest = control_->store->GetVersion(model, 0);
  if (absl::IsNotFound(newest.status())) return absl::OkStatus();
  RETURN_IF_ERROR(newest.status());
  if (newest->tenant().empty() || MaySee(caller, newest->tenant())) {
    return absl::OkStatus();
  }
  return ModelNameTaken(model);
}

absl::Status TenantAccess::CheckRoute(
    const Identity& caller, absl::string_view model,
    const absl::StatusOr<VersionHandle>& routed) const {
  if (!caller.is_bound()) return routed.status();
  if (routed.ok()) {
    return MayUse(caller, **routed) ? absl::OkStatus() : UnknownModel(model);
  }
  // The text of "not ready" would tell that there is such a model.
  const auto newest = control_->store->GetVersion(model, 0);
  if (newest.ok() && !MayUse(caller, *newest) &&
      !absl::IsInvalidArgument(routed.status())) {
    return UnknownModel(model);
  }
  return routed.status();
}

// --------------------------------------------------------------- data sets

absl::Status TenantAccess::CheckDataset(const Identity& caller,
                                        const std::string& dataset) const {
  if (!caller.is_bound()) return absl::OkStatus();
  const auto stored = control_->store->GetDataset(dataset);
  if (stored.ok() && MayUse(caller, *stored)) return absl::OkStatus();
  if (stored.ok() || absl::IsNotFound(stored.status())) {
    return NoSuchDataset(dataset);
  }
  return stored.status();
}

absl::Status TenantAccess::CheckDataset(
    const grpc::CallbackServerContext& context,
    const std::string& dataset) const {
  ASSIGN_OR_RETURN(const Identity caller, CallerOf(context));
  return CheckDataset(caller, dataset);
}

absl::Status TenantAccess::CheckJob(const Identity& caller,
                                    const v1::JobSpec& spec) const {
  if (!applies()) return absl::OkStatus();
  const v1::DataSpec& data = spec.data();
  if (!data.has_synthetic()) {
    RETURN_IF_ERROR(CheckDataset(caller, data.dataset()));
  }
  if (!data.validation().empty()) {
    RETURN_IF_ERROR(CheckDataset(caller, data.validation()));
  }
  if (!spec.publish().on_success()) return absl::OkStatus();
  // Also for callers who are not bound: the version will have the job's tenant.
  return CheckMayAdd({.tenant = spec.tenant(), .role = v1::USER},
                     PublishedModelName(spec));
}

}  // namespace gpupool::server
