#include "server/control/control_loop.h"

#include <utility>

#include "absl/memory/memory.h"
#include "server/control/admission.h"
#include "server/control/array_admission.h"
#include "server/control/control_impl.h"
#include "server/control/dataset_requests.h"
#include "server/control/device_requests.h"
#include "server/control/job_requests.h"
#include "server/control/memory_requests.h"
#include "server/control/model_requests.h"
#include "server/control/report_intake.h"
#include "server/control/reservation_requests.h"
#include "server/store/store.h"

namespace gpupool::server {

absl::StatusOr<std::unique_ptr<ControlLoop>> ControlLoop::Create(
    ControlOptions options, ControlDependencies dependencies) {
  if (options.queue_limit == 0) {
    return absl::InvalidArgumentError(
        "ControlOptions.queue_limit is 0; it must be 1 or more");
  }
  auto impl =
      std::make_unique<Impl>(std::move(options), std::move(dependencies));
  const absl::Status status = impl->Recover();
  if (!status.ok()) return status;
  return absl::WrapUnique(new ControlLoop(std::move(impl)));
}

ControlLoop::ControlLoop(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlLoop::~ControlLoop() { Stop(); }

void ControlLoop::Start(WorkerPort* workers, ServingSink* serving) {
  impl_->Start(workers, serving);
}
void ControlLoop::Stop() { impl_->Stop(); }
uint64_t ControlLoop::LastReportSequence(const std::string& device) const {
  return impl_->LastReportSequence(device);
}

// ------------------------------------------------------------------------ jobs

void ControlLoop::SubmitJob(const v1::SubmitJobRequest& request,
                            Callback<v1::Job> callback) {
  server::SubmitJob(impl_->context(), request, std::move(callback));
}

void ControlLoop::CancelJob(uint64_t id, Callback<v1::Job> callback) {
  server::CancelJob(impl_->context(), id, std::move(callback));
}

void ControlLoop::HoldJob(uint64_t id, Callback<v1::Job> callback) {
  server::HoldJob(impl_->context(), id, std::move(callback));
}
void ControlLoop::ReleaseJob(uint64_t id, Callback<v1::Job> callback) {
  server::ReleaseJob(impl_->context(), id, std::move(callback));
}
void ControlLoop::RequeueJob(uint64_t id, Callback<v1::Job> callback) {
  server::RequeueJob(impl_->context(), id, std::move(callback));
}
void ControlLoop::ExplainJob(uint64_t id,
                             Callback<v1::JobExplanation> callback) {
  server::ExplainJob(impl_->context(), id, std::move(callback));
}

absl::StatusOr<v1::Job> ControlLoop::GetJob(uint64_t id) const {
  auto job = impl_->store().GetJob(id);
  if (!job.ok()) return job;
  return WithReason(impl_->board(), *std::move(job));
}

absl::StatusOr<v1::ListJobsResponse> ControlLoop::ListJobs(
    const v1::ListJobsRequest& request) const {
  auto response = impl_->store().ListJobs(request);
  if (!response.ok()) return response;
  for (v1::Job& job : *response->mutable_jobs()) {
    job = WithReason(impl_->board(), std::move(job));
  }
  return response;
}

absl::StatusOr<std::vector<v1::JobEvent>> ControlLoop::ReadEvents(
    uint64_t job, uint64_t after, int limit) const {
  auto events = impl_->store().ReadEvents(job, after, limit);
  if (!events.ok() || !events->empty()) return events;
  auto row = impl_->store().GetJob(job);
  if (!row.ok()) return row.status();
  return events;
}

uint64_t ControlLoop::Subscribe(uint64_t job, std::function<void()> wake) {
  return impl_->streams().Subscribe(job, std::move(wake));
}
void ControlLoop::Unsubscribe(uint64_t subscription) {
  impl_->streams().Unsubscribe(subscription);
}

void ControlLoop::SubmitArray(const v1::SubmitJobRequest& request,
                              std::vector<ArrayTask> tasks,
                              Callback<v1::JobArray> callback) {
  server::SubmitArray(impl_->context(), request, std::move(tasks),
                      std::move(callback));
}
void ControlLoop::AskOfArray(uint64_t id, scheduler::ArrayRequest what,
                             Callback<v1::JobArray> callback) {
  server::AskOfArray(impl_->context(), id, what, std::move(callback));
}
absl::StatusOr<v1::JobArray> ControlLoop::GetArray(uint64_t id) const {
  return impl_->store().GetArray(id);
}
absl::StatusOr<v1::ListArraysResponse> ControlLoop::ListArrays(
    const v1::ListArraysRequest& request) const {
  return impl_->store().ListArrays(request);
}

void ControlLoop::PlanJob(const v1::JobSpec& spec,
                          Callback<v1::PlanJobResponse> callback) {
  server::PlanJob(impl_->context(), spec, std::move(callback));
}

// ---------------------------------------------------------------------- models

void ControlLoop::PlanModel(const v1::ModelSpec& spec,
                            const v1::ServingOptions& serving,
                            Callback<v1::PlanModelResponse> callback) {
  server::PlanModel(impl_->context(), spec, serving, std::move(callback));
}
void ControlLoop::ImportModel(const v1::UploadModelRequest::Header& model,
                              Callback<v1::ModelVersion> callback) {
  server::ImportModel(impl_->context(), model, std::move(callback));
}
void ControlLoop::ExportModel(
    const v1::ExportModelRequest& request,
    Callback<v1::ExportModelResponse::Header> callback) {
  server::ExportModel(impl_->context(), request, std::move(callback));
}
void ControlLoop::PromoteCheckpoint(const v1::PromoteCheckpointRequest& request,
                                    Callback<v1::ModelVersion> callback) {
  server::PromoteCheckpoint(impl_->context(), request, std::move(callback));
}
void ControlLoop::LoadVersion(const v1::LoadVersionRequest& request,
                              Callback<v1::ModelVersion> callback) {
  server::LoadVersion(impl_->context(), request, std::move(callback));
}
void ControlLoop::UnloadVersion(const v1::UnloadVersionRequest& request,
                                Callback<v1::ModelVersion> callback) {
  server::UnloadVersion(impl_->context(), request, std::move(callback));
}
void ControlLoop::DeleteVersion(const v1::DeleteVersionRequest& request,
                                Callback<v1::DeleteVersionResponse> callback) {
  server::DeleteVersion(impl_->context(), request, std::move(callback));
}
absl::StatusOr<v1::ListModelsResponse> ControlLoop::ListModels(
    const v1::ListModelsRequest& request) const {
  return impl_->store().ListModels(request);
}
absl::StatusOr<v1::Model> ControlLoop::GetModel(const std::string& name) const {
  return impl_->store().GetModel(name);
}

// -------------------------------------------------------------------- datasets

void ControlLoop::RegisterDataset(const v1::Dataset& dataset,
                                  Callback<v1::Dataset> callback) {
  server::RegisterDataset(impl_->context(), dataset, std::move(callback));
}
void ControlLoop::DeleteDataset(const std::string& name,
                                Callback<v1::DeleteDatasetResponse> callback) {
  server::DeleteDataset(impl_->context(), name, std::move(callback));
}
absl::StatusOr<v1::ListDatasetsResponse> ControlLoop::ListDatasets(
    const v1::ListDatasetsRequest& request) const {
  return impl_->store().ListDatasets(request);
}
absl::StatusOr<v1::Dataset> ControlLoop::GetDataset(
    const std::string& name) const {
  return FindDataset(impl_->store(), name);
}

// --------------------------------------------------------------------- devices

std::vector<v1::Device> ControlLoop::ListDevices() const {
  std::vector<v1::Device> devices = impl_->board().List();
  const WorkerPort* workers = impl_->context().workers;
  if (workers == nullptr) return devices;
  for (v1::Device& device : devices) {
    device.set_worker_restarts(workers->status(device.name()).restarts);
  }
  return devices;
}

void ControlLoop::GetMemory(const std::string& device, bool with_snapshot,
                            bool with_summary,
                            Callback<worker::v1::MemoryReply> callback) {
  server::GetMemory(impl_->context(), device, with_snapshot, with_summary,
                    std::move(callback));
}
void ControlLoop::EmptyCache(const std::string& device,
                             Callback<v1::EmptyCacheResponse> callback) {
  server::EmptyCache(impl_->context(), device, std::move(callback));
}
void ControlLoop::ResetPeak(const std::string& device,
                            Callback<v1::MemoryStats> callback) {
  server::ResetPeak(impl_->context(), device, std::move(callback));
}
void ControlLoop::SetMemoryFraction(const v1::SetMemoryFractionRequest& request,
                                    Callback<v1::MemoryStats> callback) {
  server::SetMemoryFraction(impl_->context(), request, std::move(callback));
}
void ControlLoop::SetDrain(const std::string& device,
                           const std::optional<v1::DeviceDrain>& drain,
                           Callback<v1::Device> callback) {
  server::SetDrain(impl_->context(), device, drain, std::move(callback));
}
void ControlLoop::RecordMemoryHistory(
    const v1::RecordMemoryHistoryRequest& request,
    Callback<v1::RecordMemoryHistoryResponse> callback) {
  server::RecordMemoryHistory(impl_->context(), request, std::move(callback));
}
void ControlLoop::DumpMemory(const std::string& device,
                             Callback<worker::v1::DumpMemoryReply> callback) {
  server::DumpMemory(impl_->context(), device, std::move(callback));
}

// ---------------------------------------------------------------- reservations

void ControlLoop::CreateReservation(const v1::CreateReservationRequest& request,
                                    Callback<v1::Reservation> callback) {
  server::CreateReservation(impl_->context(), request, std::move(callback));
}
void ControlLoop::CancelReservation(const v1::CancelReservationRequest& request,
                                    Callback<v1::Reservation> callback) {
  server::CancelReservation(impl_->context(), request, std::move(callback));
}
absl::StatusOr<v1::ListReservationsResponse> ControlLoop::ListReservations(
    const v1::ListReservationsRequest& request) const {
  return server::ListReservations(impl_->store(), request, impl_->Now());
}

// ----------------------------------------------------------------------- admin

void ControlLoop::Drain(bool stop, Callback<v1::DrainResponse> callback) {
  const auto work = [stop, callback,
                     board = &impl_->board()](Transaction& transaction) {
    transaction.Apply(scheduler::DrainRequested{.stop = stop});
    transaction.MarkPlanChanged();
    transaction.AfterCommit([callback, board] {
      v1::DrainResponse response;
      response.set_running_jobs(static_cast<uint32_t>(board->live_attempts()));
      callback(response);
    });
  };
  if (impl_->Push(work) == WorkQueue::Result::kClosed) callback(NotRunning());
}

bool ControlLoop::draining() const { return impl_->board().draining(); }
bool ControlLoop::WaitUntilIdle(absl::Duration timeout) const {
  return impl_->board().WaitUntilIdle(timeout);
}
absl::StatusOr<v1::GetUsageResponse> ControlLoop::GetUsage(
    const v1::GetUsageRequest& request) const {
  return impl_->store().GetUsage(request, impl_->Now());
}

v1::ReconcileState ControlLoop::GetReconcileState() const {
  return impl_->board().Reconcile();
}

v1::SchedulingPolicy ControlLoop::GetSchedulingPolicy() const {
  return impl_->board().Scheduling();
}

void ControlLoop::SetServingLoad(uint64_t version, bool under_load) {
  impl_->Push([version, under_load](Transaction& transaction) {
    transaction.Apply(scheduler::ServingLoadChanged{
        scheduler::VersionId(version), under_load});
  });
}

// -------------------------------------------------------------- WorkerObserver

void ControlLoop::OnWorkerReady(const std::string& device,
                                const worker::v1::HelloReply& reply) {
  impl_->WorkerIsReady(device, reply);
}
void ControlLoop::OnWorkerLost(const std::string& device,
                               const absl::Status& reason) {
  impl_->WorkerIsLost(device, reason);
}
void ControlLoop::OnReport(const std::string& device,
                           const worker::v1::Report& report) {
  impl_->Push([device, report, keep = impl_->options().keep_checkpoints](
                  Transaction& transaction) {
    TakeReport(transaction, device, report, keep);
  });
}
void ControlLoop::OnHeartbeat(const std::string& device,
                              const worker::v1::Heartbeat& heartbeat) {
  impl_->TakeHeartbeat(device, heartbeat);
}

}  // namespace gpupool::server
