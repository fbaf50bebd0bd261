// The control plane: one thread that takes everything that happens (clients'
// calls, workers' reports, timers), lets the scheduler decide, writes rows and
// events in one transaction, and only then answers callers, acknowledges
// reports and acts.
//
// Thread-safety: every public method may be called from any thread. Reads
// (Get*, List*, ReadEvents) see what is committed and return at once. Calls
// with a callback answer exactly once: before they return when they are
// refused, otherwise on the control thread or the pool's thread after the
// commit; a callback must be short and must not block.
//
// Life: Create() reads the store; then the WorkerPool is made with this object
// as its observer; Start() begins to work; Stop() before the pool and the
// serving sink are destroyed.
//
// Numbered invariants
//  1. What a client was told is on disk.
//  2. A worker's report is acknowledged only after its effects are on disk.
//  3. An action is performed only after the decision is on disk.
//  4. When the store fails to commit nothing more is answered or performed;
//     `fatal` is called once and the process must end.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gpupool/v1/admin.pb.h"
#include "gpupool/v1/dataset.pb.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"
#include "gpupool/v1/model.pb.h"
#include "gpupool/v1/reservation.pb.h"
#include "gpupool/v1/usage.pb.h"
#include "scheduler/event.h"
#include "scheduler/host.h"
#include "scheduler/order_policy.h"
#include "scheduler/topology.h"
#include "server/control/array_spec.h"
#include "server/control/serving_sink.h"
#include "server/control/worker_port.h"
#include "server/pool/worker_pool.h"

namespace gpupool::server {

class BlobStore;
class Metrics;
class Store;

struct ControlDevice {
  std::string name;  // "cpu:0"; the meta worker is not listed
  uint64_t limit_bytes = 0;
  uint32_t threads = 1;
  // To each device of the list; empty where nobody tells.
  std::vector<scheduler::Link> links = {};
};

struct ControlOptions {
  std::vector<ControlDevice> devices;
  // Where the ranks of jobs on several devices meet; made when it is needed.
  std::string groups_folder;
  // Events that may wait for the control thread. Clients are refused with
  // ResourceExhausted beyond it; workers are made to wait. >= 1.
  size_t queue_limit = 0;
  // Events that share one transaction.
  size_t batch_limit = 512;
  // Jobs that have not ended; more are refused with ResourceExhausted.
  size_t active_job_limit = 100000;
  // Checkpoints kept per job beside those that versions were made from.
  size_t keep_checkpoints = 5;
  scheduler::QueuePolicy scheduling;
  // What the machine has for jobs that say what they need beside devices.
  scheduler::HostNeed host = {};
  // What plans depend on beside the spec: stored plans of another planner are
  // made again. 0: plans are never made again.
  uint64_t planner = 0;
  // How long starts may wait for that.
  absl::Duration plan_hold = absl::Seconds(10);
  absl::Duration plan_timeout = absl::Seconds(30);
  absl::Duration inspect_timeout = absl::Minutes(10);
  absl::Duration load_timeout = absl::Minutes(5);
  absl::Duration export_timeout = absl::Minutes(5);
  absl::Duration memory_timeout = absl::Seconds(5);
  // Unreferenced blobs older than this are removed.
  absl::Duration sweep_min_age = absl::Hours(1);
  absl::Duration sweep_interval = absl::Minutes(10);
};

struct ControlDependencies {
  Store* store = nullptr;
  BlobStore* blobs = nullptr;
  Metrics* metrics = nullptr;  // may be null
  std::function<absl::Time()> now = absl::Now;
  // The store failed to commit; must not return control to normal work.
  std::function<void(const absl::Status&)> fatal;
};

class ControlLoop : public WorkerObserver {
 public:
  template <typename T>
  using Callback = std::function<void(absl::StatusOr<T>)>;

  // Reads jobs and versions back from the store. Borrowed dependencies must
  // outlive the loop.
  static absl::StatusOr<std::unique_ptr<ControlLoop>> Create(
      ControlOptions options, ControlDependencies dependencies);
  ~ControlLoop() override;  // Stops.

  // Starts the thread. `workers` and `serving` (may be null) must live until
  // Stop() has returned. Call once.
  void Start(WorkerPort* workers, ServingSink* serving);
  // Ends the thread; later calls answer Unavailable. Idempotent.
  void Stop();
  // For PoolDevice.last_report_sequence, by device name.
  uint64_t LastReportSequence(const std::string& device) const;

  // ------------------------------------------------------------------- jobs
  // Status codes as in job.proto. Forms and ranges are the caller's to check.
  void SubmitJob(const v1::SubmitJobRequest& request,
                 Callback<v1::Job> callback);
  void CancelJob(uint64_t id, Callback<v1::Job> callback);
  void HoldJob(uint64_t id, Callback<v1::Job> callback);
  void ReleaseJob(uint64_t id, Callback<v1::Job> callback);
  void RequeueJob(uint64_t id, Callback<v1::Job> callback);
  void ExplainJob(uint64_t id, Callback<v1::JobExplanation> callback);
  absl::StatusOr<v1::Job> GetJob(uint64_t id) const;
  absl::StatusOr<v1::ListJobsResponse> ListJobs(
      const v1::ListJobsRequest& request) const;
  // Events with sequence > `after`, rising; NotFound for an unknown job.
  absl::StatusOr<std::vector<v1::JobEvent>> ReadEvents(uint64_t job,
                                                       uint64_t after,
                                                       int limit) const;
  // `wake` is called after each commit that added events to the job, until
  // Unsubscribe(returned id) has returned.
  uint64_t Subscribe(uint64_t job, std::function<void()> wake);
  void Unsubscribe(uint64_t subscription);
  // `tasks` are those of the request's spec (array_spec.h), checked.
  void SubmitArray(const v1::SubmitJobRequest& request,
                   std::vector<ArrayTask> tasks,
                   Callback<v1::JobArray> callback);
  void AskOfArray(uint64_t id, scheduler::ArrayRequest what,
                  Callback<v1::JobArray> callback);
  absl::StatusOr<v1::JobArray> GetArray(uint64_t id) const;
  absl::StatusOr<v1::ListArraysResponse> ListArrays(
      const v1::ListArraysRequest& request) const;
  void PlanJob(const v1::JobSpec& spec, Callback<v1::PlanJobResponse> callback);

  // ----------------------------------------------------------------- models
  void PlanModel(const v1::ModelSpec& spec, const v1::ServingOptions& serving,
                 Callback<v1::PlanModelResponse> callback);
  // The files of the model are in the blob store already; a worker plans it and
  // stores it as a checkpoint, from which a version is made and loaded.
  void ImportModel(const v1::UploadModelRequest::Header& model,
                   Callback<v1::ModelVersion> callback);
  // A worker writes the version as a blob, whose header is answered. Nobody
  // refers to the blob: it is swept away after sweep_min_age.
  void ExportModel(const v1::ExportModelRequest& request,
                   Callback<v1::ExportModelResponse::Header> callback);
  void PromoteCheckpoint(const v1::PromoteCheckpointRequest& request,
                         Callback<v1::ModelVersion> callback);
  void LoadVersion(const v1::LoadVersionRequest& request,
                   Callback<v1::ModelVersion> callback);
  void UnloadVersion(const v1::UnloadVersionRequest& request,
                     Callback<v1::ModelVersion> callback);
  void DeleteVersion(const v1::DeleteVersionRequest& request,
                     Callback<v1::DeleteVersionResponse> callback);
  absl::StatusOr<v1::ListModelsResponse> ListModels(
      const v1::ListModelsRequest& request) const;
  absl::StatusOr<v1::Model> GetModel(const std::string& name) const;

  // --------------------------------------------------------------- datasets
  // name, layout and files; the files are in the blob store already. A worker
  // reads every row first: its error names line and column.
  void RegisterDataset(const v1::Dataset& dataset,
                       Callback<v1::Dataset> callback);
  void DeleteDataset(const std::string& name,
                     Callback<v1::DeleteDatasetResponse> callback);
  absl::StatusOr<v1::ListDatasetsResponse> ListDatasets(
      const v1::ListDatasetsRequest& request) const;
  absl::StatusOr<v1::Dataset> GetDataset(const std::string& name) const;

  // ---------------------------------------------------------------- devices
  std::vector<v1::Device> ListDevices() const;
  // NotFound for an unknown device, Unavailable while its worker is away.
  void GetMemory(const std::string& device, bool with_snapshot,
                 bool with_summary, Callback<worker::v1::MemoryReply> callback);
  void EmptyCache(const std::string& device,
                  Callback<v1::EmptyCacheResponse> callback);
  void ResetPeak(const std::string& device, Callback<v1::MemoryStats> callback);
  // Is durable and what is placed by, whatever becomes of the worker.
  // FailedPrecondition when more than that is placed or in use.
  void SetMemoryFraction(const v1::SetMemoryFractionRequest& request,
                         Callback<v1::MemoryStats> callback);
  // Durable; nothing: the device is resumed. NotFound for an unknown one.
  void SetDrain(const std::string& device,
                const std::optional<v1::DeviceDrain>& drain,
                Callback<v1::Device> callback);
  void RecordMemoryHistory(const v1::RecordMemoryHistoryRequest& request,
                           Callback<v1::RecordMemoryHistoryResponse> callback);
  // The worker writes the file as a blob, to which nobody refers.
  void DumpMemory(const std::string& device,
                  Callback<worker::v1::DumpMemoryReply> callback);

  // ----------------------------------------------------------- reservations
  void CreateReservation(const v1::CreateReservationRequest& request,
                         Callback<v1::Reservation> callback);
  void CancelReservation(const v1::CancelReservationRequest& request,
                         Callback<v1::Reservation> callback);
  absl::StatusOr<v1::ListReservationsResponse> ListReservations(
      const v1::ListReservationsRequest& request) const;

  // ------------------------------------------------------------------ admin
  // No further jobs. With `stop`, running attempts checkpoint and stop.
  void Drain(bool stop, Callback<v1::DrainResponse> callback);
  bool draining() const;
  // Blocks until no attempt is live, at most `timeout`. False: some still are.
  bool WaitUntilIdle(absl::Duration timeout) const;
  v1::ReconcileState GetReconcileState() const;
  absl::StatusOr<v1::GetUsageResponse> GetUsage(
      const v1::GetUsageRequest& request) const;
  v1::SchedulingPolicy GetSchedulingPolicy() const;

  // ---------------------------------------------------------------- serving
  // Whether requests to the version wait for too long. Blocks while the queue
  // is full.
  void SetServingLoad(uint64_t version, bool under_load);

  // --------------------------------------------------------- WorkerObserver
  void OnWorkerReady(const std::string& device,
                     const worker::v1::HelloReply& reply) override;
  void OnWorkerLost(const std::string& device,
                    const absl::Status& reason) override;
  void OnReport(const std::string& device,
                const worker::v1::Report& report) override;
  void OnHeartbeat(const std::string& device,
                   const worker::v1::Heartbeat& heartbeat) override;

 private:
  class Impl;
  explicit ControlLoop(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace gpupool::server
