// Private to server/api: which models and data sets a caller may use and
// change. A bound caller may use those of its tenant, those that belong to no
// tenant, and the models that other tenants share. It may change the first two.
// Every other caller may use and change all.
//
// What a caller may not use is NotFound with the text of a name that does not
// exist. One thing tells that it does: nobody can give its name to something
// else, since all tenants share the names.
//
// Thread-safety: any thread. Ownership: control and gate must outlive it.
#pragma once

#include <grpcpp/server_context.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "server/auth/access_gate.h"
#include "server/serving/model_registry.h"

namespace gpupool::server {

struct ControlContext;

// Returns who makes a call. Without a gate that is an admin without a tenant.
// Unauthenticated when the token has just ended.
absl::StatusOr<Identity> CallerOf(AccessGate* gate,
                                  const grpc::CallbackServerContext& context);

// Returns the key under which an upload of the tenant is kept. Two tenants
// never have the same key, so neither learns what the other one uploads. An
// empty key stays empty.
std::string TenantUploadKey(const std::string& tenant, const std::string& key);

class TenantAccess {
 public:
  TenantAccess(const ControlContext* control, AccessGate* gate)
      : control_(control), gate_(gate) {}

  // Returns whether callers differ, so that checks are needed.
  bool applies() const { return gate_ != nullptr && gate_->checks_calls(); }

  absl::StatusOr<Identity> CallerOf(
      const grpc::CallbackServerContext& context) const {
    return server::CallerOf(gate_, context);
  }

  // ------------------------------------------------------------- models
  static bool MayUse(const Identity& caller, const v1::ModelVersion& version);
  // Returns the same for a version that is served. An ensemble may be used by
  // who may use the models of all its steps.
  bool MayUse(const Identity& caller, const ServedVersion& version) const;

  // NotFound if there is no model of this name that the caller may use.
  absl::Status CheckModel(const Identity& caller,
                          const std::string& model) const;
  absl::Status CheckModel(const grpc::CallbackServerContext& context,
                          const std::string& model) const;

  // Checks that the caller may load, unload, delete and share the model. A name
  // that no stored model has passes. PermissionDenied for a model that another
  // tenant shares.
  absl::Status CheckMayChange(const Identity& caller,
                              const std::string& model) const;
  absl::Status CheckMayChange(const grpc::CallbackServerContext& context,
                              const std::string& model) const;

  // Checks that the caller may make a version of this name. AlreadyExists if it
  // is another tenant's.
  absl::Status CheckMayAdd(const Identity& caller,
                           const std::string& model) const;

  // Returns the status of a look-up by the router, or of an unknown model where
  // the caller may not use this one.
  absl::Status CheckRoute(const Identity& caller, absl::string_view model,
                          const absl::StatusOr<VersionHandle>& routed) const;

  // ----------------------------------------------------------- data sets
  static bool MayUse(const Identity& caller, const v1::Dataset& dataset) {
    return dataset.tenant().empty() || MaySee(caller, dataset.tenant());
  }
  // NotFound if there is no dataset of this name that the caller may use.
  absl::Status CheckDataset(const Identity& caller,
                            const std::string& dataset) const;
  absl::Status CheckDataset(const grpc::CallbackServerContext& context,
                            const std::string& dataset) const;

  // Checks the datasets that a job reads, and the model that it publishes. The
  // spec has its tenant. AlreadyExists if the model is another tenant's.
  absl::Status CheckJob(const Identity& caller, const v1::JobSpec& spec) const;

 private:
  const ControlContext* const control_;
  AccessGate* const gate_;
};

}  // namespace gpupool::server
