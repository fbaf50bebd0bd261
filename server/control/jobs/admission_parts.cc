#include "server/control/jobs/admission_parts.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/state/fair_share.h"
#include "scheduler/state/state.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/control/devices/device_requests.h"
#include "server/control/jobs/admission.h"
#include "server/control/records/job_queues.h"
#include "server/control/records/ledger.h"
#include "server/control/records/rows.h"
#include "server/control/records/synthetic_dataset.h"
#include "server/control/records/transaction.h"
#include "server/store/blob_store.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

absl::string_view KindOf(const v1::Job&) { return "job"; }
absl::string_view KindOf(const v1::JobArray&) { return "array"; }

// Returns the number of jobs of the tenant and its parts that have not ended.
size_t ActiveJobsOf(const Ledger& ledger, absl::string_view tenant) {
  return static_cast<size_t>(std::count_if(
      ledger.jobs.begin(), ledger.jobs.end(), [&](const auto& entry) {
        const v1::Job& job = entry.second.job;
        absl::string_view rest = job.spec().tenant();
        return !scheduler::IsEnded(
                   static_cast<scheduler::JobState>(job.state())) &&
               absl::ConsumePrefix(&rest, tenant) &&
               (rest.empty() || rest.front() == '.');
      }));
}

}  // namespace

absl::Status Draining() {
  return absl::UnavailableError(
      "the server is draining and accepts no jobs; try again after its "
      "restart");
}

absl::StatusOr<std::optional<v1::Job>> EarlierJob(
    Transaction& transaction, const v1::SubmitJobRequest& request) {
  const std::string& tenant = request.spec().tenant();
  const JobRow* row =
      transaction.ledger().FindRequest(tenant, request.request_id());
  // The ledger has what this transaction has not written yet. The store has
  // jobs that ended long ago.
  if (row != nullptr) return std::optional<v1::Job>(row->job);
  return transaction.store().FindByRequestId(tenant, request.request_id());
}

template <typename Row>
absl::StatusOr<Row> SameOrRefuse(const Row& earlier,
                                 const v1::SubmitJobRequest& request) {
  // The client repeats a call whose answer was lost. A repeated call gets the
  // job that the first one made.
  if (CanonicalBytes(earlier.spec()) == CanonicalBytes(request.spec())) {
    return earlier;
  }
  const absl::string_view kind = KindOf(earlier);
  return RequestIdUsed(
      request, absl::StrCat(kind, " ", earlier.id(), " with another spec"),
      kind);
}
template absl::StatusOr<v1::Job> SameOrRefuse(const v1::Job&,
                                              const v1::SubmitJobRequest&);
template absl::StatusOr<v1::JobArray> SameOrRefuse(const v1::JobArray&,
                                                   const v1::SubmitJobRequest&);

absl::Status RequestIdUsed(const v1::SubmitJobRequest& request,
                           absl::string_view holder, absl::string_view wanted) {
  return absl::AlreadyExistsError(
      absl::StrCat("request_id \"", request.request_id(), "\" was used for ",
                   holder, "; use a new request_id for a new ", wanted));
}

absl::Status CheckRoom(const ControlContext& context, Transaction& transaction,
                       size_t jobs) {
  if (transaction.ledger().state.draining()) return Draining();
  // A job that is accepted must be on disk, so a full disk refuses it here.
  const absl::Status room = context.store->CheckRoom();
  if (!room.ok()) return room;
  const size_t limit = context.options.active_job_limit;
  const size_t there = transaction.ledger().jobs.size();
  if (there + jobs <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      there >= limit ? absl::StrCat("the queue is full (", limit,
                                    " jobs have not ended); try again later")
                     : absl::StrCat("the queue has no room for ", jobs,
                                    " jobs (", there, " of ", limit,
                                    " jobs have not ended); try again later"));
}

absl::Status CheckTenantJobs(Transaction& transaction,
                             const std::string& tenant, size_t jobs) {
  const Ledger& ledger = transaction.ledger();
  const scheduler::TenantShares& tenants = ledger.state.policy().tenants;
  for (const absl::string_view level : scheduler::PathOf(tenant)) {
    const auto share = tenants.find(std::string(level));
    if (share == tenants.end() || !share->second.most_jobs) continue;
    const size_t limit = *share->second.most_jobs;
    const size_t there = ActiveJobsOf(ledger, level);
    if (there + jobs <= limit) continue;
    return absl::ResourceExhaustedError(absl::StrCat(
        "tenant \"", level, "\" has ", there,
        " jobs that have not ended, may "
        "have ",
        limit, ", and asks for ", jobs,
        " more; wait until some end or cancel them, or have `jobs` raised in "
        "the server's --tenants"));
  }
  return absl::OkStatus();
}

absl::Status CheckFits(Transaction& transaction, const v1::JobSpec& spec,
                       const v1::Plan& plan) {
  const scheduler::State& state = transaction.ledger().state;
  const scheduler::Queues& queues = state.queues();
  RETURN_IF_ERROR(CheckQueue(queues, spec));
  RETURN_IF_ERROR(CheckWantedDevice(state, spec.device()));
  const scheduler::Queues::Entry& queue =
      queues.at(queues.NumberOf(spec.queue()));
  const scheduler::Need need{.bytes = plan.training().peak(),
                             .wanted_device = spec.device(),
                             .devices = DeviceCount(spec),
                             .job = std::nullopt,
                             .demands = DemandsOf(spec),
                             .queue = &queue,
                             .visitor = {},
                             .spares_cpu = scheduler::SparesCpu(
                                 spec.device(), queue.has_accelerators)};
  const scheduler::Placement placement = scheduler::Place(state, need);
  if (placement.fit != scheduler::Fit::kNever) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      scheduler::NeverFitsText(need, placement),
      placement.lacks_host ? "; lower host_cores or host_bytes"
      : need.devices > 1
          ? "; use fewer devices, a smaller batch_size or model, or raise the "
            "devices' limits"
          : "; use a smaller batch_size or model, or raise the device's "
            "limit"));
}

absl::StatusOr<JobData> FindData(const Store& store, const v1::DataSpec& data) {
  JobData found;
  if (data.has_synthetic()) {
    ASSIGN_OR_RETURN(found.dataset, SyntheticDataset(data.synthetic()));
  } else {
    ASSIGN_OR_RETURN(found.dataset, FindDataset(store, data.dataset()));
  }
  if (data.validation().empty()) return found;
  ASSIGN_OR_RETURN(found.validation, FindDataset(store, data.validation()));
  return found;
}

namespace {

absl::Status CheckDataset(Transaction& transaction, const std::string& name,
                          uint64_t id) {
  auto dataset = FindDataset(transaction.store(), name);
  if (!dataset.ok()) return dataset.status();
  // The plan was made for the rows of the old data set.
  if (dataset->id() != id) {
    return absl::UnavailableError(
        absl::StrCat("dataset \"", name,
                     "\" was replaced while the job was planned; try again"));
  }
  // The store does not show deletions of this very transaction.
  const auto& gone = transaction.batch().delete_datasets;
  if (std::find(gone.begin(), gone.end(), dataset->id()) == gone.end()) {
    return absl::OkStatus();
  }
  return absl::NotFoundError(
      absl::StrCat("dataset \"", name, "\" has just been deleted"));
}

}  // namespace

absl::Status CheckData(Transaction& transaction, const JobData& data) {
  if (!data.dataset.has_synthetic()) {
    RETURN_IF_ERROR(
        CheckDataset(transaction, data.dataset.name(), data.dataset.id()));
  }
  if (data.validation.id() == 0) return absl::OkStatus();
  return CheckDataset(transaction, data.validation.name(),
                      data.validation.id());
}

v1::Job NewJob(Transaction& transaction, const v1::JobSpec& spec,
               const worker::v1::PlanReply& plan) {
  v1::Job job;
  job.set_id(transaction.store().AllocateId(IdKind::kJob));
  *job.mutable_spec() = spec;
  job.set_state(v1::QUEUED);
  job.set_held(spec.hold());
  *job.mutable_plan() = plan.plan();
  job.mutable_progress()->set_total_steps(plan.total_steps());
  *job.mutable_create_time() = ToTimestamp(transaction.now());
  job.mutable_memory()->set_planned_peak_bytes(plan.plan().training().peak());
  return job;
}

JobRow& AddRow(Transaction& transaction, v1::Job&& job) {
  Ledger& ledger = transaction.ledger();
  JobRow& row = ledger.AddJob(std::move(job));
  row.queued_since = transaction.now();
  ++ledger.job_counts[v1::QUEUED];
  v1::JobEvent event;
  event.mutable_state_change()->set_to(v1::QUEUED);
  event.mutable_state_change()->set_reason("submitted");
  transaction.AppendEvent(row, std::move(event));
  return row;
}

bool HasFiles(const BlobStore& blobs, const v1::ModelSpec& model) {
  if (model.has_weights() && !blobs.Contains(model.weights().sha256())) {
    return false;
  }
  if (!model.has_onnx()) return true;
  const auto& files = model.onnx().external_files();
  return blobs.Contains(model.onnx().sha256()) &&
         std::all_of(files.begin(), files.end(), [&](const auto& file) {
           return blobs.Contains(file.sha256());
         });
}

worker::v1::ToWorker PlanTraining(const v1::JobSpec& spec,
                                  const JobData& data) {
  worker::v1::ToWorker message;
  worker::v1::PlanTraining& plan = *message.mutable_plan_training();
  *plan.mutable_spec() = spec;
  *plan.mutable_dataset() = data.dataset;
  if (!spec.data().validation().empty()) {
    *plan.mutable_validation() = data.validation;
  }
  return message;
}

}  // namespace gpupool::server
