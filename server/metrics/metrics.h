// Every Prometheus family of the daemon, in one place, behind typed setters.
// Names follow Prometheus' rules: prefix gpupool_, base units, _total for
// counters. Readings of GPUs have the names of NVIDIA's exporter instead
// (gpu_series.h). No label grows with the number of jobs or clients.
//
// Thread-safety: any thread. The request path holds a VersionMetrics, whose
// series are looked up once. An observation is then a few atomic operations.
//
// Ownership: handles keep alive what they need and may outlive Metrics.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "gpupool/v1/device.pb.h"
#include "gpupool/v1/job.pb.h"

namespace prometheus {
class Collectable;
}  // namespace prometheus

namespace gpupool::server {

struct MetricFamilies;

// Gauges of the length of a bounded queue and of its bound.
class QueueMetrics {
 public:
  virtual ~QueueMetrics() = default;
  virtual void SetDepth(uint64_t depth) = 0;
};

// Series of one served model version. They disappear with the last handle.
class VersionMetrics {
 public:
  virtual ~VersionMetrics() = default;
  // Counts an answered request by its `code`. Call once per request.
  virtual void CountRequest(absl::StatusCode code) = 0;
  // Observes the time from arrival until the batch was handed to a worker.
  virtual void ObserveQueue(absl::Duration duration) = 0;
  // Observes the worker's time for the batch.
  virtual void ObserveCompute(absl::Duration duration) = 0;
  // Observes the time from arrival to the answer.
  virtual void ObserveTotal(absl::Duration duration) = 0;
  // Observes the rows of one executed batch.
  virtual void ObserveBatch(uint32_t rows) = 0;
  // Counts programs that were made for the sizes of a request, and those that
  // were removed for them.
  virtual void CountPrograms(uint32_t compiled, uint32_t evicted) = 0;
  virtual void SetQueueDepth(uint64_t requests) = 0;
  virtual void SetUnderLoad(bool under_load) = 0;
};

// Values of labels.
enum class CheckpointPhase { kSave, kWrite, kRestore };

class Metrics {
 public:
  Metrics();
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // ------------------------------------------------------------------ build
  void SetBuildInfo(const std::string& version, const std::string& commit);

  // ---------------------------------------------------------- jobs, control
  // Sets the number of jobs in each state; absent states are set to 0.
  void SetJobs(const std::map<v1::JobState, uint64_t>& jobs);
  // Sets the QUEUED jobs, the live jobs and the held devices of a configured
  // queue.
  void SetQueue(const std::string& queue, uint64_t waiting, uint64_t running,
                uint32_t devices);
  // Observes the time from admission, or from the return to the queue, to the
  // start.
  void ObserveQueueWait(absl::Duration duration);
  // Observes by how much later than predicted a waiting job started; negative:
  // earlier.
  void ObservePredictionError(absl::Duration error);
  // Adds the series of a reason for which jobs are told to make room, at 0.
  void DeclarePreemption(absl::string_view reason);
  // Counts a running job that was told to make room.
  void CountPreemption(absl::string_view reason);
  // Sets the number of devices that are reserved for a tenant now.
  void SetReservedDevices(uint32_t devices);
  // Counts jobs that failed because devices failed under them again and again.
  void CountBlamedJobs(uint64_t count);
  // Sets the versions and jobs that wait for a rehearsal, and adds the series
  // of CountRehearsal.
  void SetRehearsals(size_t waiting);
  // Counts a rehearsal of a "job" or a "version". UNAVAILABLE: it could not be
  // tried.
  void CountRehearsal(absl::string_view kind, const absl::Status& status);
  // Observes a checkpoint. kSave: the time for which training paused. kRestore:
  // from the request to the first step of an attempt that resumes, including
  // compilation.
  void ObserveCheckpoint(CheckpointPhase phase, absl::Duration duration);
  void ObserveStoreCommit(absl::Duration duration);
  void ObserveSchedulerDecision(absl::Duration duration);
  // Counts attempts on which the store and the workers disagreed.
  void CountReconcileMismatches(uint64_t count);

  // ---------------------------------------------------------------- devices
  // Sets the allocated, reserved, limit and peak bytes of stats.device().
  void SetDeviceMemory(const v1::MemoryStats& stats);
  // Sets the share of time that was spent computing, 0 .. 1.
  void SetDeviceUtilization(const std::string& device, double ratio);
  void SetDeviceUp(const std::string& device, bool up);
  // Sets the number of consecutive faults, and whether the device cools down.
  void SetDeviceFaults(const std::string& device, uint32_t in_a_row,
                       bool cools);
  void SetDeviceDrained(const std::string& device, bool drained);
  // Sets the GPU series from device.gpu() and device.readings().
  void SetGpuReadings(const v1::Device& device);
  void ClearGpuReadings(const std::string& device);
  // Sets the running totals of the worker's present boot from its heartbeat. A
  // lower step count than before means that the worker started anew.
  void SetTrainingSteps(const std::string& device, uint64_t step_count,
                        double step_seconds_total);
  // Counts the loss of a worker by its cause (WorkerObserver::OnWorkerLost).
  void CountWorkerLoss(const std::string& device, absl::StatusCode reason);

  // ---------------------------------------------------------------- serving
  // Returns the same object for the same version while somebody holds it.
  // `queue_limit` is the bound of its queue.
  std::shared_ptr<VersionMetrics> ForVersion(const std::string& model,
                                             const std::string& version,
                                             uint64_t queue_limit);
  // Counts a request that names no served version. It gets no series of its
  // own.
  void CountUnroutedRequest(absl::StatusCode code);

  // ----------------------------------------------------------------- queues
  // Returns gpupool_queue_depth and gpupool_queue_limit with label
  // queue=`name`.
  std::shared_ptr<QueueMetrics> ForQueue(const std::string& name,
                                         uint64_t limit);

  // Returns what the exposer serves. Valid as long as this object.
  std::shared_ptr<prometheus::Collectable> collectable() const;
  // Returns the exposition text that a scrape would get.
  std::string Text() const;

 private:
  std::shared_ptr<MetricFamilies> families_;
};

}  // namespace gpupool::server
