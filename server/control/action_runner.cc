#include "server/control/action_runner.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "engine/base/held_data_type.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/control/calls/work_queue.h"
#include "server/control/jobs/rehearsals.h"
#include "server/control/records/ledger.h"
#include "server/control/records/rows.h"
#include "server/control/records/synthetic_dataset.h"
#include "server/control/records/transaction.h"
#include "server/control/serving_sink.h"
#include "server/control/upkeep/group_folders.h"
#include "server/pool/worker_port.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

worker::v1::StopJob::Reason ToProto(scheduler::StopReason reason) {
  return reason == scheduler::StopReason::kCancelled
             ? worker::v1::StopJob::CANCELLED
             : worker::v1::StopJob::DRAIN;
}

using Tensors = google::protobuf::RepeatedPtrField<v1::TensorSpec>;

// Returns the reported tensors with the types that clients know. A version that
// was stored when its tensors were served in the type that holds them keeps
// that type.
Tensors WithStoredTypes(const Tensors& stored, const Tensors& reported) {
  Tensors tensors = reported;
  for (int i = 0; i < std::min(stored.size(), tensors.size()); ++i) {
    v1::TensorSpec& tensor = tensors[i];
    const auto held =
        engine::HeldDataType(static_cast<uint32_t>(tensor.data_type()));
    if (stored[i].name() == tensor.name() &&
        static_cast<uint32_t>(stored[i].data_type()) == held) {
      tensor.set_data_type(stored[i].data_type());
    }
  }
  return tensors;
}

// Stores the tensors that the worker reports.
void NoteTensors(Transaction& transaction, uint64_t version_id,
                 const worker::v1::VersionReply& reply) {
  v1::ModelVersion* version = transaction.ledger().FindVersion(version_id);
  if (version == nullptr) return;
  v1::Plan& plan = *version->mutable_plan();
  if (reply.inputs().empty()) return;
  *plan.mutable_inputs() = WithStoredTypes(plan.inputs(), reply.inputs());
  *plan.mutable_outputs() = WithStoredTypes(plan.outputs(), reply.outputs());
}

}  // namespace

ActionRunner::ActionRunner(const ControlContext& context, Ledger* ledger,
                           ServingSink* serving,
                           std::function<void(absl::Time)> set_timer)
    : context_(context),
      ledger_(ledger),
      serving_(serving),
      set_timer_(std::move(set_timer)) {}

void ActionRunner::Perform(const scheduler::Action& action) {
  std::visit([this](const auto& concrete) { Do(concrete); }, action);
}

void ActionRunner::Tell(scheduler::Event event) {
  context_.queue->Push([event = std::move(event)](Transaction& transaction) {
    transaction.Apply(event);
  });
}

std::string ActionRunner::NameOf(scheduler::DeviceId id) const {
  return ledger_->state.devices().at(id).name;
}

absl::StatusOr<worker::v1::StartJob> ActionRunner::StartOf(
    const scheduler::StartJob& action, const v1::Job& job) const {
  worker::v1::StartJob start;
  start.set_job_id(job.id());
  start.set_attempt(action.attempt.number);
  *start.mutable_spec() = job.spec();
  if (job.spec().max_devices() > 0) {
    // The worker gets a job of fixed size. The scheduler has chosen the number.
    start.mutable_spec()->set_devices(action.ranks);
    start.mutable_spec()->clear_min_devices();
    start.mutable_spec()->clear_max_devices();
  }
  const v1::DataSpec& data = job.spec().data();
  if (data.has_synthetic()) {
    ASSIGN_OR_RETURN(*start.mutable_dataset(),
                     SyntheticDataset(data.synthetic()));
  } else {
    ASSIGN_OR_RETURN(*start.mutable_dataset(),
                     context_.store->GetDataset(data.dataset()));
  }
  if (!job.spec().data().validation().empty()) {
    ASSIGN_OR_RETURN(
        *start.mutable_validation(),
        context_.store->GetDataset(job.spec().data().validation()));
  }
  // Only planning compares descriptions, and they may have megabytes.
  start.mutable_dataset()->clear_description();
  if (start.has_validation()) start.mutable_validation()->clear_description();
  start.set_resume_manifest_sha256(job.last_checkpoint().manifest_sha256());
  start.set_limit_bytes(action.limit_bytes);
  // A single rank meets nobody and needs no folder.
  if (action.ranks == 1) return start;
  worker::v1::RankGroup& group = *start.mutable_group();
  ASSIGN_OR_RETURN(*group.mutable_folder(),
                   context_.groups->Make(action.attempt));
  group.set_name(GroupName(action.attempt));
  group.set_rank(action.rank);
  group.set_size(action.ranks);
  return start;
}

// Checks the state once more: a whole turn is decided before any of it is done,
// and an action that a later event of the turn has undone (a lost worker, for
// example) must not reach the worker afterwards.
void ActionRunner::Do(const scheduler::StartJob& action) {
  using scheduler::Outcome;
  const JobRow* row = ledger_->FindJob(action.attempt.job.value());
  if (row == nullptr || !ledger_->state.RunsOn(action.attempt, action.device)) {
    // Report the end here, since no worker will.
    return Tell(scheduler::AttemptEnded{action.device, action.attempt,
                                        Outcome::kStopped, ""});
  }
  auto start = StartOf(action, row->job);
  if (!start.ok()) {
    // Another try may help only against a passing error.
    const bool passes = absl::IsUnavailable(start.status());
    return Tell(scheduler::AttemptEnded{
        action.device, action.attempt,
        passes ? Outcome::kInterrupted : Outcome::kFailed,
        std::string(start.status().message())});
  }
  worker::v1::ToWorker message;
  *message.mutable_start_job() = *std::move(start);
  context_.workers->Post(NameOf(action.device), std::move(message));
}

void ActionRunner::Do(const scheduler::StopJob& action) {
  worker::v1::ToWorker message;
  worker::v1::StopJob& stop = *message.mutable_stop_job();
  stop.set_job_id(action.attempt.job.value());
  stop.set_attempt(action.attempt.number);
  stop.set_reason(ToProto(action.reason));
  context_.workers->Post(NameOf(action.device), std::move(message));
}

// Does nothing: the transaction has already stored the version as a row.
void ActionRunner::Do(const scheduler::CreateVersion&) {}

void ActionRunner::Do(const scheduler::LoadVersion& action) {
  const uint64_t id = action.version.value();
  const v1::ModelVersion* row = ledger_->FindVersion(id);
  const scheduler::Version* version =
      ledger_->state.FindVersion(action.version);
  if (row == nullptr || version == nullptr || !version->load_sent ||
      version->load != action.load) {
    return;
  }
  worker::v1::ToWorker message;
  *message.mutable_load_version() = LoadRequestOf(*row);
  message.mutable_load_version()->set_limit_bytes(action.limit_bytes);
  context_.workers->Send(
      NameOf(action.device), std::move(message), context_.options.load_timeout,
      [queue = context_.queue,
       action](const absl::StatusOr<worker::v1::FromWorker>& reply) {
        queue->Push([action, reply](Transaction& transaction) {
          if (reply.ok()) {
            NoteTensors(transaction, action.version.value(), reply->version());
            transaction.Apply(scheduler::VersionLoaded{
                action.version, action.device, action.load});
          } else {
            transaction.Apply(scheduler::VersionLoadFailed{
                action.version, action.device, action.load, reply.status()});
          }
        });
      });
}

void ActionRunner::Do(const scheduler::RehearseVersion& action) {
  const v1::ModelVersion* row = ledger_->FindVersion(action.version.value());
  if (row == nullptr) return;
  context_.rehearsals->Add(
      LoadRequestOf(*row),
      [queue = context_.queue, action](const absl::Status& status) {
        queue->Push([action, status](Transaction& transaction) {
          transaction.Apply(
              scheduler::VersionRehearsed{action.version, action.load, status});
        });
      });
}

void ActionRunner::Do(const scheduler::ServeVersion& action) {
  const v1::ModelVersion* row = ledger_->FindVersion(action.version.value());
  const scheduler::Version* version =
      ledger_->state.FindVersion(action.version);
  if (row == nullptr || serving_ == nullptr || version == nullptr) return;
  // A later event of the same turn may have unloaded the version again.
  if (version->state != scheduler::VersionState::kReady ||
      version->device != action.device) {
    return;
  }
  serving_->VersionReady(*row, NameOf(action.device));
}

void ActionRunner::Do(const scheduler::DrainVersion& action) {
  const auto drained = [queue = context_.queue, version = action.version] {
    queue->Push([version](Transaction& transaction) {
      transaction.Apply(scheduler::VersionDrained{version});
    });
  };
  if (serving_ == nullptr) return drained();
  serving_->VersionDraining(action.version.value(), drained);
}

void ActionRunner::Do(const scheduler::ForgetVersion& action) {
  if (serving_ == nullptr) return;
  serving_->VersionDraining(action.version.value(), [] {});
}

void ActionRunner::Do(const scheduler::UnloadVersion& action) {
  worker::v1::ToWorker message;
  message.mutable_unload_version()->set_version_id(action.version.value());
  context_.workers->Send(
      // Bytes are given back only when the worker says so, however long that
      // takes.
      NameOf(action.device), std::move(message), absl::InfiniteDuration(),
      [queue = context_.queue,
       action](const absl::StatusOr<worker::v1::FromWorker>& reply) {
        // WorkerLost reports a lost worker. Any other answer means that the
        // worker no longer holds the version.
        if (absl::IsUnavailable(reply.status())) return;
        queue->Push([action](Transaction& transaction) {
          transaction.Apply(
              scheduler::VersionUnloaded{action.version, action.device});
        });
      });
}

void ActionRunner::Do(const scheduler::SetTimer& action) {
  set_timer_(action.time);
}

}  // namespace gpupool::server
