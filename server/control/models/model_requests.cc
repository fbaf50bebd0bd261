#include "server/control/models/model_requests.h"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/state/device.h"
#include "scheduler/state/device_choice.h"
#include "scheduler/state/state.h"
#include "scheduler/step/event.h"
#include "server/control/calls/ask_worker.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/control/calls/enqueue.h"
#include "server/control/devices/device_requests.h"
#include "server/control/jobs/admission.h"
#include "server/control/jobs/admission_parts.h"
#include "server/control/models/version_import.h"
#include "server/control/models/version_waiters.h"
#include "server/control/records/rows.h"
#include "server/control/records/taken_names.h"
#include "server/control/records/tenant_use.h"
#include "server/control/records/transaction.h"
#include "server/control/upkeep/tenant_quota.h"
#include "server/pool/worker_port.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

using scheduler::VersionId;
using For = VersionWaiters::For;

// Returns NotFound that says whether the model or only the version is unknown.
absl::Status NoSuchVersion(Ledger& ledger, const std::string& model,
                           uint64_t number) {
  if (!ledger.HasModel(model)) {
    return NoSuchModel(model);
  }
  return absl::NotFoundError(absl::StrCat(
      "model \"", model, "\" has no version ", number, "; the newest is ",
      ledger.FindVersion(model, 0)->version()));
}

// Answer that a request waits for.
struct Reply {
  VersionCallback callback;
  std::optional<For> wait;  // wait beyond the commit
};

// Returns the reply to a request that loads a version.
Reply ReplyToLoad(VersionCallback callback, bool wait) {
  return {.callback = std::move(callback),
          .wait = wait ? std::optional(For::kLoaded) : std::nullopt};
}

// Answers with the version `ids.back()`: after the commit, or when all have
// arrived.
void AnswerWithVersions(const ControlContext& context, Transaction& transaction,
                        std::vector<uint64_t> ids, Reply reply) {
  Ledger& ledger = transaction.ledger();
  transaction.AfterCommit(
      [&context, &ledger, ids = std::move(ids), reply = std::move(reply)] {
        if (reply.wait) {
          const absl::btree_set<uint64_t> all(ids.begin(), ids.end());
          // Checks at once, because the versions may have arrived already.
          context.waiters->Add(*reply.wait, ids, reply.callback);
          context.waiters->Check(ledger, all);
          return;
        }
        const v1::ModelVersion* version = ledger.FindVersion(ids.back());
        if (version == nullptr) return reply.callback(NotRunning());
        reply.callback(*version);
      });
}

// Gives a new version its tenant, which must have room for it.
absl::Status SettleNew(Transaction& transaction, v1::ModelVersion* version) {
  Ledger& ledger = transaction.ledger();
  RETURN_IF_ERROR(ledger.SettleTenant(version));
  RETURN_IF_ERROR(CheckModelLoad(ledger, *version));
  return CheckStoredRoom(transaction, version->tenant(),
                         version->stored_bytes());
}

// Adds the version and asks to load it, in one transaction.
void CreateAndLoad(const ControlContext& context, Transaction& transaction,
                   v1::ModelVersion version, const Reply& reply) {
  if (version.job_id() != 0) {
    // The checkpoint may have been pruned while the model was planned.
    auto checkpoint =
        context.store->GetCheckpoint(version.job_id(), version.step());
    if (!checkpoint.ok()) return reply.callback(checkpoint.status());
  }
  const absl::Status settled = SettleNew(transaction, &version);
  if (!settled.ok()) return reply.callback(settled);
  const uint64_t id = transaction.CreateVersion(std::move(version));
  transaction.Apply(scheduler::VersionLoadRequested{VersionId(id)});
  AnswerWithVersions(context, transaction, {id}, reply);
}

// Tries out a version, then creates it.
void Admit(const ControlContext& context, const v1::ModelVersion& version,
           const Reply& reply) {
  TryOutVersion(
      context, version,
      [&context, reply](const absl::StatusOr<v1::ModelVersion>& tried) {
        if (!tried.ok()) return reply.callback(tried.status());
        Enqueue<v1::ModelVersion>(
            context, reply.callback,
            [&context, version = *tried, reply](Transaction& transaction) {
              CreateAndLoad(context, transaction, version, reply);
            });
      });
}

// Makes the plan again for another batch size than that of the job's spec, with
// the same facts of the dataset.
void Replan(const ControlContext& context, const v1::Job& job,
            v1::ModelVersion version, const Reply& reply) {
  const auto data = FindData(*context.store, job.spec().data());
  if (absl::IsNotFound(data.status())) {
    return reply.callback(absl::FailedPreconditionError(absl::StrCat(
        "a dataset of job ", job.id(),
        " is deleted, so that it cannot be planned again (",
        data.status().message(), "); promote with max_batch_size ",
        WithDefaults(job.spec().publish().serving()).max_batch_size())));
  }
  if (!data.ok()) return reply.callback(data.status());
  v1::JobSpec spec = job.spec();
  *spec.mutable_publish()->mutable_serving() = version.serving();
  worker::v1::ToWorker message = PlanTraining(spec, *data);
  Ask<v1::ModelVersion>(
      context, {kMetaDevice, std::move(message), context.options.plan_timeout},
      reply.callback,
      [&context, version = std::move(version),
       reply](const worker::v1::FromWorker& planned) mutable {
        *version.mutable_plan() = planned.plan().plan();
        version.mutable_plan()->clear_training();
        Admit(context, version, reply);
      });
}

// Checks that the device exists, and that the version is not loaded on another
// one.
absl::Status CheckMayLoad(const scheduler::State& state,
                          const v1::ModelVersion& version,
                          const v1::LoadVersionRequest& request) {
  RETURN_IF_ERROR(CheckWantedDevice(state, request.device()));
  const scheduler::Device* device = state.FindDevice(version.device());
  const bool stays =
      version.state() == v1::READY || version.state() == v1::LOADING;
  if (device == nullptr || !stays ||
      scheduler::TakesDevice(request.device(), device->name, device->kind)) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(version.model(), " version ", version.version(),
                   " is loaded on ", device->name,
                   " and does not move; unload it with `gpupool models unload ",
                   version.model(), "/", version.version(),
                   "`, then load it on ", request.device()));
}

// Asks to load the version. The scheduler decides where.
void Load(const ControlContext& context, Transaction& transaction,
          const v1::LoadVersionRequest& request,
          const VersionCallback& callback) {
  Ledger& ledger = transaction.ledger();
  const v1::ModelVersion* version =
      ledger.FindVersion(request.model(), request.version());
  if (version == nullptr) {
    return callback(NoSuchVersion(ledger, request.model(), request.version()));
  }
  absl::Status possible = CheckMayLoad(ledger.state, *version, request);
  if (possible.ok()) possible = CheckModelLoad(ledger, *version);
  if (!possible.ok()) return callback(possible);
  const uint64_t id = version->id();
  transaction.Apply(
      scheduler::VersionLoadRequested{VersionId(id), request.device()});
  AnswerWithVersions(context, transaction, {id},
                     ReplyToLoad(callback, request.wait()));
}

// Asks to unload the version; for version 0 all of the model.
void Unload(const ControlContext& context, Transaction& transaction,
            const v1::UnloadVersionRequest& request,
            const VersionCallback& callback) {
  Ledger& ledger = transaction.ledger();
  const v1::ModelVersion* version =
      ledger.FindVersion(request.model(), request.version());
  if (version == nullptr) {
    return callback(NoSuchVersion(ledger, request.model(), request.version()));
  }
  std::vector<uint64_t> ids{version->id()};
  if (request.version() == 0) ids = ledger.VersionsOf(request.model());
  for (uint64_t id : ids) {
    transaction.Apply(scheduler::VersionUnloadRequested{VersionId(id)});
  }
  Reply reply{.callback = callback};
  if (request.wait()) reply.wait = For::kUnloaded;
  AnswerWithVersions(context, transaction, std::move(ids), std::move(reply));
}

// Returns the version; version 0 is the newest.
absl::StatusOr<v1::ModelVersion> StoredVersion(
    const Store& store, const v1::ExportModelRequest& request) {
  if (request.version() != 0) {
    return store.GetVersion(request.model(), request.version());
  }
  auto model = store.GetModel(request.model());
  if (!model.ok()) return model.status();
  // Versions come newest first.
  return model->versions(0);
}

void Delete(const ControlContext& context, Transaction& transaction,
            const v1::DeleteVersionRequest& request,
            const Callback<v1::DeleteVersionResponse>& callback) {
  Ledger& ledger = transaction.ledger();
  // 0 does not mean the newest here, so that a forgotten field deletes nothing.
  const v1::ModelVersion* version =
      request.version() == 0
          ? nullptr
          : ledger.FindVersion(request.model(), request.version());
  if (version == nullptr) {
    return callback(NoSuchVersion(ledger, request.model(), request.version()));
  }
  if (version->state() != v1::UNLOADED && version->state() != v1::LOAD_FAILED) {
    return callback(absl::FailedPreconditionError(absl::StrCat(
        request.model(), " version ", request.version(), " is ",
        v1::VersionState_Name(version->state()), "; unload it first")));
  }
  transaction.Apply(scheduler::VersionDeleted{VersionId(version->id())});
  transaction.AfterCommit([&context, callback] {
    context.want_sweep();
    callback(v1::DeleteVersionResponse());
  });
}

// Marks all versions of the model, and answers with the model as it is stored.
void Share(const ControlContext& context, Transaction& transaction,
           const v1::ShareModelRequest& request,
           const Callback<v1::Model>& callback) {
  Ledger& ledger = transaction.ledger();
  const std::vector<uint64_t> ids = ledger.VersionsOf(request.name());
  if (ids.empty()) return callback(NoSuchModel(request.name()));
  if (ledger.FindVersion(ids.front())->tenant().empty()) {
    return callback(absl::FailedPreconditionError(
        absl::StrCat("model \"", request.name(),
                     "\" belongs to no tenant, so every tenant has it; upload "
                     "it with a token of a tenant under another name")));
  }
  for (const uint64_t id : ids) {
    ledger.FindVersion(id)->set_shared(!request.off());
    transaction.TouchVersion(id);
  }
  transaction.AfterCommit([&context, name = request.name(), callback] {
    callback(context.store->GetModel(name));
  });
}

}  // namespace

void ImportModel(const ControlContext& context,
                 const v1::UploadModelRequest::Header& model,
                 const std::string& tenant, VersionCallback callback) {
  PlanVersion(context, model,
              [&context, tenant, bytes = UploadedBytes(*context.blobs, model),
               reply = ReplyToLoad(callback, model.wait())](
                  absl::StatusOr<v1::ModelVersion> planned) {
                if (!planned.ok()) return reply.callback(planned.status());
                planned->set_tenant(tenant);
                planned->set_stored_bytes(bytes);
                Admit(context, *planned, reply);
              });
}

void ShareModel(const ControlContext& context,
                const v1::ShareModelRequest& request,
                Callback<v1::Model> callback) {
  Enqueue<v1::Model>(context, callback,
                     [&context, request, callback](Transaction& transaction) {
                       Share(context, transaction, request, callback);
                     });
}

void ExportModel(const ControlContext& context,
                 const v1::ExportModelRequest& request,
                 Callback<v1::ExportModelResponse::Header> callback) {
  auto version = StoredVersion(*context.store, request);
  if (!version.ok()) return callback(version.status());
  worker::v1::ToWorker message;
  worker::v1::ExportModel& ask = *message.mutable_export_model();
  ask.set_manifest_sha256(version->manifest_sha256());
  ask.set_format(request.format());
  v1::ExportModelResponse::Header header;
  header.set_model(version->model());
  header.set_version(version->version());
  Ask<v1::ExportModelResponse::Header>(
      context,
      {kMetaDevice, std::move(message), context.options.export_timeout},
      callback,
      [header, callback](const worker::v1::FromWorker& reply) mutable {
        header.set_sha256(reply.export_model().sha256());
        header.set_total_bytes(reply.export_model().bytes());
        callback(header);
      });
}

void PromoteCheckpoint(const ControlContext& context,
                       const v1::PromoteCheckpointRequest& request,
                       VersionCallback callback) {
  auto job = context.store->GetJob(request.job_id());
  if (!job.ok()) return callback(job.status());
  std::optional<uint64_t> step;
  if (request.has_step()) {
    step = request.step();
  } else if (job->best_checkpoints_size() > 0) {
    step = job->best_checkpoints(0).step();
  }
  auto checkpoint = context.store->GetCheckpoint(request.job_id(), step);
  if (!checkpoint.ok()) return callback(checkpoint.status());
  v1::ModelVersion version = VersionOf(*job, *checkpoint);
  if (!request.model().empty()) version.set_model(request.model());
  const uint32_t planned = version.serving().max_batch_size();
  if (request.has_serving()) {
    *version.mutable_serving() = WithDefaults(request.serving());
  }
  const Reply reply = ReplyToLoad(std::move(callback), request.wait());
  if (version.serving().max_batch_size() != planned ||
      !version.plan().has_inference()) {
    return Replan(context, *job, std::move(version), reply);
  }
  Admit(context, version, reply);
}

void LoadVersion(const ControlContext& context,
                 const v1::LoadVersionRequest& request,
                 VersionCallback callback) {
  Enqueue<v1::ModelVersion>(
      context, callback,
      [&context, request, callback](Transaction& transaction) {
        Load(context, transaction, request, callback);
      });
}

void UnloadVersion(const ControlContext& context,
                   const v1::UnloadVersionRequest& request,
                   VersionCallback callback) {
  Enqueue<v1::ModelVersion>(
      context, callback,
      [&context, request, callback](Transaction& transaction) {
        Unload(context, transaction, request, callback);
      });
}

void DeleteVersion(const ControlContext& context,
                   const v1::DeleteVersionRequest& request,
                   Callback<v1::DeleteVersionResponse> callback) {
  Enqueue<v1::DeleteVersionResponse>(
      context, callback,
      [&context, request, callback](Transaction& transaction) {
        Delete(context, transaction, request, callback);
      });
}

}  // namespace gpupool::server
