#include "server/control/jobs/array_admission.h"

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/status_macros.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "scheduler/step/event.h"
#include "server/control/calls/ask_worker.h"
#include "server/control/calls/context.h"
#include "server/control/calls/control_options.h"
#include "server/control/calls/enqueue.h"
#include "server/control/devices/device_board.h"
#include "server/control/jobs/admission.h"
#include "server/control/jobs/admission_parts.h"
#include "server/control/jobs/array_spec.h"
#include "server/control/jobs/job_rehearsals.h"
#include "server/control/jobs/job_requests.h"
#include "server/control/jobs/plan_cache.h"
#include "server/control/records/ledger.h"
#include "server/control/records/rows.h"
#include "server/control/records/transaction.h"
#include "server/pool/worker_port.h"
#include "server/store/store.h"

namespace gpupool::server {
namespace {

// Names of a job's dataset and of its validation set. A synthetic dataset goes
// by its bytes.
using DataNames = std::pair<std::string, std::string>;

DataNames NamesOf(const ArrayTask& task) {
  const v1::DataSpec& data = task.spec.data();
  return {
      data.has_synthetic() ? CanonicalBytes(data.synthetic()) : data.dataset(),
      data.validation()};
}

// State of a submission between its steps.
struct ArraySubmission {
  v1::SubmitJobRequest request;
  std::vector<ArrayTask> tasks;
  std::vector<std::string> keys;        // keys of the plans, task by task
  std::vector<std::string> rehearsals;  // keys of the rehearsals
  std::map<DataNames, JobData> data;    // datasets of the plans
  absl::flat_hash_map<std::string, PlanCache::Plan> plans;  // plans by key
  std::vector<size_t> unplanned;  // one task for each missing plan
  ArrayCallback callback;
  SubmissionTracePtr trace;  // null: not traced
};
using ArraySubmissionPtr = std::shared_ptr<ArraySubmission>;

absl::Status OfTask(const ArrayTask& task, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(
      status.code(), absl::StrCat("task ", task.index, ": ", status.message()));
}

// Returns the earlier array of this request id, or nothing when it is new.
// Fails when a job has it.
absl::StatusOr<std::optional<v1::JobArray>> EarlierRequest(
    Transaction& transaction, const v1::SubmitJobRequest& request) {
  ASSIGN_OR_RETURN(const auto job, EarlierJob(transaction, request));
  if (job) {
    return RequestIdUsed(request, absl::StrCat("job ", job->id()), "array");
  }
  return EarlierArray(transaction, request.spec().tenant(),
                      request.request_id());
}

// Checks the array as a whole and each task. Runs in the transaction, since the
// ledger may have changed while plans were made.
absl::Status Check(const ControlContext& context, Transaction& transaction,
                   const ArraySubmission& submission) {
  RETURN_IF_ERROR(CheckRoom(context, transaction, submission.tasks.size()));
  RETURN_IF_ERROR(CheckTenantJobs(transaction,
                                  submission.request.spec().tenant(),
                                  submission.tasks.size()));
  RETURN_IF_ERROR(CheckStartRules(transaction, submission.request.spec()));
  for (const auto& [names, data] : submission.data) {
    RETURN_IF_ERROR(CheckData(transaction, data));
  }
  for (size_t i = 0; i < submission.tasks.size(); ++i) {
    const ArrayTask& task = submission.tasks[i];
    RETURN_IF_ERROR(OfTask(
        task, CheckFits(transaction, task.spec,
                        submission.plans.at(submission.keys[i])->plan())));
  }
  return absl::OkStatus();
}

// Adds the array's row and its tasks. The tasks reach the scheduler in one
// event, so that none starts before all are there.
uint64_t AddArray(const ControlContext& context, Transaction& transaction,
                  const ArraySubmission& submission) {
  v1::JobArray array;
  array.set_id(transaction.store().AllocateId(IdKind::kJob));
  *array.mutable_spec() = submission.request.spec();
  array.set_request_id(submission.request.request_id());
  *array.mutable_create_time() = ToTimestamp(transaction.now());
  array.set_tasks(static_cast<uint32_t>(submission.tasks.size()));
  scheduler::ArraySubmitted event;
  for (size_t i = 0; i < submission.tasks.size(); ++i) {
    const ArrayTask& task = submission.tasks[i];
    v1::Job job = NewJob(transaction, task.spec,
                         *submission.plans.at(submission.keys[i]));
    job.set_array_id(array.id());
    job.set_array_index(task.index);
    job.set_array_max_at_once(array.spec().array().max_at_once());
    if (submission.trace != nullptr) submission.trace->Mark(&job);
    const JobRow& row = AddRow(transaction, std::move(job));
    event.tasks.push_back(EventOf(row.job, transaction.ledger()));
    const std::string& key = submission.rehearsals[i];
    if (!context.job_rehearsals->Needs(key)) continue;
    event.tasks.back().untried = true;
    context.job_rehearsals->Await(
        transaction, key, row.job.id(),
        PlanTraining(task.spec, submission.data.at(NamesOf(task)))
            .plan_training());
  }
  const uint64_t id = array.id();
  transaction.AddArray(std::move(array));
  transaction.Apply(event);
  return id;
}

// Answers with the array and its counts as they are after the commit.
void AnswerWithArray(const ControlContext& context, Transaction& transaction,
                     uint64_t id, ArrayCallback callback) {
  transaction.AfterCommit([&context, id, callback = std::move(callback)] {
    callback(context.store->GetArray(id));
  });
}

// Admits the array, or answers with the one of an earlier try.
void AdmitArray(const ControlContext& context, Transaction& transaction,
                const ArraySubmissionPtr& submission) {
  const auto earlier = EarlierRequest(transaction, submission->request);
  if (!earlier.ok()) return submission->callback(earlier.status());
  if (earlier->has_value()) {
    const auto same = SameOrRefuse(**earlier, submission->request);
    if (!same.ok()) return submission->callback(same.status());
    return AnswerWithArray(context, transaction, same->id(),
                           submission->callback);
  }
  const absl::Status status = Check(context, transaction, *submission);
  if (!status.ok()) return submission->callback(status);
  const uint64_t id = AddArray(context, transaction, *submission);
  AnswerWithArray(context, transaction, id, submission->callback);
}

// Asks for the missing plans one after the other, then queues the array.
void PlanNext(const ControlContext& context,
              const ArraySubmissionPtr& submission) {
  if (submission->unplanned.empty()) {
    return Enqueue<v1::JobArray>(
        context, submission->callback,
        [&context, submission](Transaction& transaction) {
          AdmitArray(context, transaction, submission);
        });
  }
  const size_t next = submission->unplanned.back();
  submission->unplanned.pop_back();
  const ArrayTask& task = submission->tasks[next];
  const absl::Time asked = absl::Now();
  const ArrayCallback failed = [submission, &task, asked](const auto& result) {
    TellPlanned(submission->trace, asked, result.status());
    submission->callback(OfTask(task, result.status()));
  };
  Ask<v1::JobArray>(
      context,
      {kMetaDevice, PlanTraining(task.spec, submission->data.at(NamesOf(task))),
       context.options.plan_timeout},
      failed,
      [&context, submission, next, asked](const worker::v1::FromWorker& reply) {
        TellPlanned(submission->trace, asked, absl::OkStatus());
        const std::string& key = submission->keys[next];
        auto plan = std::make_shared<const worker::v1::PlanReply>(reply.plan());
        context.plans->Add(key, plan);
        submission->plans[key] = std::move(plan);
        PlanNext(context, submission);
      });
}

// Fills in keys, datasets and known plans, and lists the missing plans.
absl::Status FindPlans(const ControlContext& context,
                       ArraySubmission& submission) {
  for (size_t i = 0; i < submission.tasks.size(); ++i) {
    const ArrayTask& task = submission.tasks[i];
    const DataNames names = NamesOf(task);
    if (!submission.data.contains(names)) {
      auto found = FindData(*context.store, task.spec.data());
      if (!found.ok()) return OfTask(task, found.status());
      submission.data[names] = *std::move(found);
    }
    const JobData& data = submission.data[names];
    submission.keys.push_back(
        PlanCache::KeyOf(task.spec, data.dataset.id(), data.validation.id()));
    submission.rehearsals.push_back(JobRehearsals::KeyOf(
        task.spec, data.dataset.id(), data.validation.id()));
    const std::string& key = submission.keys.back();
    if (submission.plans.contains(key)) continue;
    PlanCache::Plan& plan = submission.plans[key];
    if (HasFiles(*context.blobs, task.spec.model())) {
      plan = context.plans->Find(key);
    }
    if (plan == nullptr) submission.unplanned.push_back(i);
  }
  if (submission.plans.size() <= kMaxArrayPlans) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("the tasks of the array need ", submission.plans.size(),
                   " different plans, at most ", kMaxArrayPlans,
                   " are made for one array; tasks that differ only in names, "
                   "seeds and learning rates share a plan"));
}

}  // namespace

absl::StatusOr<std::optional<v1::JobArray>> EarlierArray(
    Transaction& transaction, const std::string& tenant,
    const std::string& request_id) {
  for (const v1::JobArray& array : transaction.batch().insert_arrays) {
    if (array.spec().tenant() == tenant && array.request_id() == request_id) {
      return array;
    }
  }
  return transaction.store().FindArrayByRequestId(tenant, request_id);
}

void SubmitArray(const ControlContext& context, SubmittedArray array,
                 ArrayCallback callback) {
  auto submission = std::make_shared<ArraySubmission>();
  submission->request = std::move(array.request);
  submission->tasks = std::move(array.tasks);
  submission->trace = std::move(array.trace);
  submission->callback = callback;
  const v1::SubmitJobRequest& request = submission->request;
  const auto earlier = context.store->FindArrayByRequestId(
      request.spec().tenant(), request.request_id());
  if (!earlier.ok()) return callback(earlier.status());
  if (earlier->has_value()) {
    return callback(SameOrRefuse(**earlier, request));
  }
  if (context.board->draining()) return callback(Draining());
  const absl::Status room = context.store->CheckRoom();
  if (!room.ok()) return callback(room);
  const absl::Status found = FindPlans(context, *submission);
  if (!found.ok()) return callback(found);
  PlanNext(context, submission);
}

void AskOfArray(const ControlContext& context, uint64_t id,
                scheduler::ArrayRequest what, ArrayCallback callback) {
  Enqueue<v1::JobArray>(
      context, callback,
      [&context, id, what, callback](Transaction& transaction) {
        transaction.Apply(
            scheduler::ArrayRequested{scheduler::JobId(id), what});
        AnswerWithArray(context, transaction, id, callback);
      });
}

}  // namespace gpupool::server
