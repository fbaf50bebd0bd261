#include "server/control/jobs/admission.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/step/event.h"
#include "server/control/calls/ask_worker.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/control/calls/enqueue.h"
#include "server/control/devices/device_board.h"
#include "server/control/jobs/admission_parts.h"
#include "server/control/jobs/array_admission.h"
#include "server/control/jobs/forecast_requests.h"
#include "server/control/jobs/job_rehearsals.h"
#include "server/control/jobs/job_requests.h"
#include "server/control/jobs/plan_cache.h"
#include "server/control/jobs/plan_searches.h"
#include "server/control/records/job_queues.h"
#include "server/control/records/ledger.h"
#include "server/control/records/rows.h"
#include "server/control/records/synthetic_dataset.h"
#include "server/control/records/taken_names.h"
#include "server/control/records/transaction.h"
#include "server/pool/worker_port.h"
#include "server/store/blob_store.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

using JobCallback = Callback<v1::Job>;

// State of a submission between its steps.
struct Submission {
  v1::SubmitJobRequest request;
  JobData data;  // datasets of the plan
  std::string plan_key;
  std::string rehearsal_key;
  PlanCache::Plan plan;
  JobCallback callback;
  SubmissionTracePtr trace;  // null: not traced
};

// Returns the earlier job of this request id, or nothing when it is new. Fails
// when an array has it.
absl::StatusOr<std::optional<v1::Job>> Earlier(
    Transaction& transaction, const v1::SubmitJobRequest& request) {
  ASSIGN_OR_RETURN(std::optional<v1::Job> job,
                   EarlierJob(transaction, request));
  if (job) return job;
  ASSIGN_OR_RETURN(
      const auto array,
      EarlierArray(transaction, request.spec().tenant(), request.request_id()));
  if (!array) return std::nullopt;
  return RequestIdUsed(request, absl::StrCat("array ", array->id()), "job");
}

uint64_t AddJob(const ControlContext& context, Transaction& transaction,
                const Submission& submission) {
  v1::Job job =
      NewJob(transaction, submission.request.spec(), *submission.plan);
  job.set_request_id(submission.request.request_id());
  if (submission.trace != nullptr) submission.trace->Mark(&job);
  const JobRow& row = AddRow(transaction, std::move(job));
  const uint64_t id = row.job.id();
  scheduler::JobSubmitted event = EventOf(row.job, transaction.ledger());
  event.untried = context.job_rehearsals->Needs(submission.rehearsal_key);
  transaction.Apply(event);
  if (event.untried) {
    context.job_rehearsals->Await(
        transaction, submission.rehearsal_key, id,
        PlanTraining(submission.request.spec(), submission.data)
            .plan_training());
  }
  return id;
}

void Admit(const ControlContext& context, Transaction& transaction,
           const std::shared_ptr<Submission>& submission) {
  auto earlier = Earlier(transaction, submission->request);
  if (!earlier.ok()) return submission->callback(earlier.status());
  if (earlier->has_value()) {
    // The job may be new in this very transaction, so answer after the commit.
    transaction.AfterCommit([job = **earlier, submission] {
      submission->callback(SameOrRefuse(job, submission->request));
    });
    return;
  }
  const v1::JobSpec& spec = submission->request.spec();
  absl::Status status = CheckRoom(context, transaction, 1);
  if (status.ok()) status = CheckTenantJobs(transaction, spec.tenant(), 1);
  if (status.ok()) {
    status = CheckFits(transaction, spec, submission->plan->plan());
  }
  if (status.ok()) {
    status = CheckData(transaction, submission->data);
  }
  if (status.ok()) status = CheckStartRules(transaction, spec);
  if (!status.ok()) return submission->callback(status);
  const uint64_t id = AddJob(context, transaction, *submission);
  AnswerWithJob(context, transaction, id, submission->callback);
}

void Queue(const ControlContext& context,
           const std::shared_ptr<Submission>& submission) {
  Enqueue<v1::Job>(context, submission->callback,
                   [&context, submission](Transaction& transaction) {
                     Admit(context, transaction, submission);
                   });
}

// Returns a dataset for planning before the data exists. Its rows are enough
// for every batch and held-out rule. Bytes do not depend on the rows.
v1::Dataset AssumedDataset(const std::string& name) {
  v1::Dataset dataset;
  dataset.set_name(name);
  dataset.set_rows(UINT32_MAX);
  dataset.set_classes(1);
  return dataset;
}

// Returns the datasets of a job; assumes those that do not exist yet, and those
// that may not be read.
absl::StatusOr<JobData> FindOrAssumeData(const Store& store,
                                         const v1::DataSpec& data,
                                         const MayReadDataset& may_read) {
  JobData found;
  const auto find = [&](const std::string& name, v1::Dataset& dataset) {
    if (name.empty()) return absl::OkStatus();
    auto stored = store.GetDataset(name);
    if (!stored.ok() && !absl::IsNotFound(stored.status())) {
      return stored.status();
    }
    dataset = stored.ok() && may_read(*stored) ? *std::move(stored)
                                               : AssumedDataset(name);
    return absl::OkStatus();
  };
  if (data.has_synthetic()) {
    ASSIGN_OR_RETURN(found.dataset, SyntheticDataset(data.synthetic()));
  } else {
    RETURN_IF_ERROR(find(data.dataset(), found.dataset));
  }
  RETURN_IF_ERROR(find(data.validation(), found.validation));
  return found;
}

// Returns the answer to PlanJob without forecast and advice.
v1::PlanJobResponse FirstAnswer(const ControlContext& context,
                                const worker::v1::PlanReply& reply,
                                const AdvisedPlan& planned) {
  v1::PlanJobResponse response;
  *response.mutable_plan() = reply.plan();
  // Without the data only a length in steps is known.
  response.set_total_steps(planned.uploaded ? reply.total_steps()
                                            : planned.spec.training().steps());
  const uint64_t bytes = response.plan().training().peak();
  for (auto& fit : context.board->Fits(bytes, planned.spec)) {
    *response.add_devices() = std::move(fit);
  }
  return response;
}

}  // namespace

void AnswerWithJob(const ControlContext& context, Transaction& transaction,
                   uint64_t id, JobCallback callback) {
  transaction.AfterCommit([&context, &ledger = transaction.ledger(), id,
                           callback = std::move(callback)] {
    const JobRow* row = ledger.FindJob(id);
    if (row == nullptr) return callback(context.store->GetJob(id));
    callback(WithReason(*context.board, row->job));
  });
}

worker::v1::ToWorker PlanRequest(const Store& store, const v1::JobSpec& spec) {
  const auto data = FindOrAssumeData(store, spec.data(), AllDatasets());
  if (data.ok()) return PlanTraining(spec, *data);
  // The store cannot be read now. Bytes do not depend on the rows.
  return PlanTraining(spec, {AssumedDataset(spec.data().dataset()),
                             AssumedDataset(spec.data().validation())});
}

absl::StatusOr<v1::Dataset> FindDataset(const Store& store,
                                        const std::string& name) {
  auto dataset = store.GetDataset(name);
  if (!absl::IsNotFound(dataset.status())) return dataset;
  return NoSuchDataset(name);
}

v1::Job WithReason(const DeviceBoard& board, v1::Job job) {
  if (job.state() == v1::RUNNING) {
    job.set_waiting_reason(board.SavingReason(job.id()));
  }
  if (job.state() != v1::QUEUED) return job;
  job.set_waiting_reason(board.WaitingReason(job.id()));
  if (job.waiting_reason().empty()) {
    job.set_waiting_reason("waits behind many other jobs");
  }
  return job;
}

void SubmitJob(const ControlContext& context,
               const v1::SubmitJobRequest& request, JobCallback callback,
               SubmissionTracePtr trace) {
  auto submission = std::make_shared<Submission>();
  submission->request = request;
  submission->callback = callback;
  submission->trace = std::move(trace);
  auto data = FindData(*context.store, request.spec().data());
  if (data.ok()) {
    submission->data = *data;
    submission->plan_key = PlanCache::KeyOf(request.spec(), data->dataset.id(),
                                            data->validation.id());
    submission->rehearsal_key = JobRehearsals::KeyOf(
        request.spec(), data->dataset.id(), data->validation.id());
    // A plan in the cache does not prove that the model's files are still
    // there.
    if (HasFiles(*context.blobs, request.spec().model())) {
      submission->plan = context.plans->Find(submission->plan_key);
    }
  }
  // With a plan all further checks are made in the transaction.
  if (submission->plan != nullptr) return Queue(context, submission);

  // Cheap checks before the meta worker is asked. Admit repeats them, since
  // things may change while it plans.
  auto earlier = context.store->FindByRequestId(request.spec().tenant(),
                                                request.request_id());
  if (!earlier.ok()) return callback(earlier.status());
  if (earlier->has_value()) return callback(SameOrRefuse(**earlier, request));
  if (context.board->draining()) return callback(Draining());
  const absl::Status room = context.store->CheckRoom();
  if (!room.ok()) return callback(room);
  if (!data.ok()) return callback(data.status());
  const absl::Time asked = absl::Now();
  const JobCallback failed = [submission, asked](const auto& result) {
    TellPlanned(submission->trace, asked, result.status());
    submission->callback(result);
  };
  Ask<v1::Job>(
      context,
      {kMetaDevice, PlanTraining(request.spec(), *data),
       context.options.plan_timeout},
      failed,
      [&context, submission, asked](const worker::v1::FromWorker& reply) {
        TellPlanned(submission->trace, asked, absl::OkStatus());
        submission->plan =
            std::make_shared<const worker::v1::PlanReply>(reply.plan());
        context.plans->Add(submission->plan_key, submission->plan);
        Queue(context, submission);
      });
}

void CancelJob(const ControlContext& context, uint64_t id,
               JobCallback callback) {
  Enqueue<v1::Job>(
      context, callback, [&context, id, callback](Transaction& transaction) {
        if (transaction.ledger().FindJob(id) == nullptr) {
          // An ended job, for which this is a no-op, or an unknown one.
          return callback(context.store->GetJob(id));
        }
        transaction.Apply(scheduler::JobCancelRequested{scheduler::JobId(id)});
        AnswerWithJob(context, transaction, id, callback);
      });
}

void PlanJob(const ControlContext& context, const v1::PlanJobRequest& request,
             const MayReadDataset& may_read,
             Callback<v1::PlanJobResponse> callback) {
  const v1::JobSpec& spec = request.spec();
  const auto data = FindOrAssumeData(*context.store, spec.data(), may_read);
  if (!data.ok()) return callback(data.status());
  AdvisedPlan planned;
  planned.spec = spec;
  planned.request = PlanTraining(spec, *data);
  planned.uploaded = data->dataset.id() != 0 || data->dataset.has_synthetic();
  planned.asked = context.now();
  if (request.advise()) {
    planned.measured =
        FindMeasured(context, spec, data->dataset.id(), data->validation.id());
  }
  Ask<v1::PlanJobResponse>(
      context, {kMetaDevice, planned.request, context.options.plan_timeout},
      callback,
      [&context, callback, planned,
       advise = request.advise()](const worker::v1::FromWorker& reply) mutable {
        planned.rows = reply.plan().training_rows();
        planned.response = FirstAnswer(context, reply.plan(), planned);
        if (!advise) {
          return AnswerWithForecast(context, planned.spec, planned.response,
                                    callback);
        }
        AddAdvice(context, planned,
                  [&context, callback, spec = planned.spec](
                      absl::StatusOr<v1::PlanJobResponse> response) {
                    if (!response.ok()) return callback(response.status());
                    AnswerWithForecast(context, spec, *std::move(response),
                                       callback);
                  });
      });
}

void PlanModel(const ControlContext& context, const v1::ModelSpec& spec,
               const v1::ServingOptions& serving,
               Callback<v1::PlanModelResponse> callback) {
  worker::v1::ToWorker message;
  *message.mutable_plan_inference()->mutable_spec() = spec;
  const v1::ServingOptions options = WithDefaults(serving);
  message.mutable_plan_inference()->set_max_batch_size(
      options.max_batch_size());
  message.mutable_plan_inference()->set_max_programs(options.max_programs());
  message.mutable_plan_inference()->set_precision(options.precision());
  Ask<v1::PlanModelResponse>(
      context, {kMetaDevice, std::move(message), context.options.plan_timeout},
      callback, [&context, callback](const worker::v1::FromWorker& reply) {
        v1::PlanModelResponse response;
        *response.mutable_plan() = reply.plan().plan();
        const uint64_t bytes = response.plan().inference().peak();
        for (auto& fit : context.board->Fits(bytes, v1::JobSpec())) {
          *response.add_devices() = std::move(fit);
        }
        callback(std::move(response));
      });
}

}  // namespace gpupool::server
