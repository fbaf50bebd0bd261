// Private to server/api: which jobs and arrays a caller may see and change. A
// bound caller has those of its tenant, every other caller has all.
//
// A job of another tenant is NotFound with the text of a job that does not
// exist, so that nobody learns that it does.
//
// Thread-safety: any thread. Ownership: control and gate must outlive it.
#pragma once

#include <grpcpp/server_context.h>

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"
#include "server/auth/access_gate.h"

namespace gpupool::server {

struct ControlContext;

class JobAccess {
 public:
  // Without a gate every caller has everything.
  JobAccess(const ControlContext* control, AccessGate* gate)
      : control_(control), gate_(gate) {}

  // Returns who calls. Unauthenticated when the token has just ended.
  absl::StatusOr<Identity> CallerOf(
      const grpc::CallbackServerContext& context) const;

  // Checks that the caller may see and change the job, or the array.
  absl::Status CheckJob(const grpc::CallbackServerContext& context,
                        uint64_t id) const;
  absl::Status CheckArray(const grpc::CallbackServerContext& context,
                          uint64_t id) const;

  // Fills in the tenant of a spec, or checks it. Call it before the check of
  // the spec's form, which fills in a tenant of its own.
  absl::Status CheckTenantOf(const grpc::CallbackServerContext& context,
                             v1::JobSpec* spec) const;
  // Checks that the caller has the jobs and arrays that the job waits for.
  absl::Status CheckPrerequisites(const grpc::CallbackServerContext& context,
                                  const v1::JobSpec& spec) const;

  // Checks the datasets that the job reads, and the model that it publishes, of
  // a spec with its tenant.
  absl::Status CheckNames(const grpc::CallbackServerContext& context,
                          const v1::JobSpec& spec) const;
  // Returns which datasets the caller may know of.
  static std::function<bool(const v1::Dataset&)> DatasetsOf(
      const Identity& caller);

  // Fills in the tenant of a filter, if the caller is bound.
  absl::Status CheckFilter(const grpc::CallbackServerContext& context,
                           std::string* tenant) const;

 private:
  absl::Status CheckJobOf(const Identity& caller, uint64_t id) const;
  absl::Status CheckArrayOf(const Identity& caller, uint64_t id) const;
  absl::Status CheckPrerequisite(const Identity& caller, const char* field,
                                 uint64_t id) const;

  const ControlContext* const control_;
  AccessGate* const gate_;
};

}  // namespace gpupool::server
