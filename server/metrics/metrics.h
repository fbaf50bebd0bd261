// Every Prometheus family of the daemon, in one place, behind typed setters.
// Names follow Prometheus' rules: prefix gpupool_, base units, _total for
// counters; but for what GPUs tell, which has the names of NVIDIA's exporter
// (gpu_series.h). No label grows with the number of jobs or clients.
//
// Threads: everything here serves any thread. The request path holds a
// VersionMetrics, whose series are looked up once; an observation is then a
// few atomic operations.
//
// Ownership: handles keep alive what they need; they may outlive Metrics.
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

// A gauge of how full a bounded queue is, beside its bound.
class QueueMetrics {
 public:
  virtual ~QueueMetrics() = default;
  virtual void SetDepth(uint64_t depth) = 0;
};

// The series of one served model version. They disappear with the last handle.
class VersionMetrics {
 public:
  virtual ~VersionMetrics() = default;
  // A request was answered with `code`; once per request.
  virtual void CountRequest(absl::StatusCode code) = 0;
  // From arrival to the moment its batch was handed to a worker.
  virtual void ObserveQueue(absl::Duration duration) = 0;
  // What the worker measured for the batch.
  virtual void ObserveCompute(absl::Duration duration) = 0;
  // From arrival to the answer.
  virtual void ObserveTotal(absl::Duration duration) = 0;
  // Rows of one batch that was executed.
  virtual void ObserveBatch(uint32_t rows) = 0;
  // Programs that were made for the sizes of a request, and removed for them.
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
  // States that are absent are set to 0.
  void SetJobs(const std::map<v1::JobState, uint64_t>& jobs);
  // Of a queue of the configuration: QUEUED, and with a live attempt.
  void SetQueue(const std::string& queue, uint64_t waiting, uint64_t running,
                uint32_t devices);
  // From admission, or from the return to the queue, to the start.
  void ObserveQueueWait(absl::Duration duration);
  // How much later than predicted a job that had to wait started; below 0:
  // earlier.
  void ObservePredictionError(absl::Duration error);
  // Adds the series of a reason for which jobs are told to make room, at 0.
  void DeclarePreemption(absl::string_view reason);
  // Counts a running job that was told to make room.
  void CountPreemption(absl::string_view reason);
  // That are for jobs of one tenant now.
  void SetReservedDevices(uint32_t devices);
  // Jobs that failed since devices failed under them again and again.
  void CountBlamedJobs(uint64_t count);
  // Save: how long the training stood still for it. Restore: from the request
  // to the first step of an attempt that resumes, compiling included.
  void ObserveCheckpoint(CheckpointPhase phase, absl::Duration duration);
  void ObserveStoreCommit(absl::Duration duration);
  void ObserveSchedulerDecision(absl::Duration duration);
  // Attempts on which the store and the workers disagreed.
  void CountReconcileMismatches(uint64_t count);

  // ---------------------------------------------------------------- devices
  // allocated, reserved, limit and peak of stats.device().
  void SetDeviceMemory(const v1::MemoryStats& stats);
  // Share of time spent computing, 0..1.
  void SetDeviceUtilization(const std::string& device, double ratio);
  void SetDeviceUp(const std::string& device, bool up);
  // Faults in a row, and whether it cools down after the last one.
  void SetDeviceFaults(const std::string& device, uint32_t in_a_row,
                       bool cools);
  void SetDeviceDrained(const std::string& device, bool drained);
  // What a GPU tells: of device.gpu() and device.readings().
  void SetGpuReadings(const v1::Device& device);
  void ClearGpuReadings(const std::string& device);
  // Running totals of the worker's present boot, as its heartbeats carry them;
  // a smaller step count than before means that the worker started anew.
  void SetTrainingSteps(const std::string& device, uint64_t step_count,
                        double step_seconds_total);
  // The worker has ended; the code says why (WorkerObserver::OnWorkerLost).
  void CountWorkerLoss(const std::string& device, absl::StatusCode reason);

  // ---------------------------------------------------------------- serving
  // The same object for the same version while somebody holds it.
  // `queue_limit` is the bound of its queue.
  std::shared_ptr<VersionMetrics> ForVersion(const std::string& model,
                                             const std::string& version,
                                             uint64_t queue_limit);
  // A request that names no served version: it gets no series of its own.
  void CountUnroutedRequest(absl::StatusCode code);

  // ----------------------------------------------------------------- queues
  // gpupool_queue_depth and gpupool_queue_limit with label queue=`name`.
  std::shared_ptr<QueueMetrics> ForQueue(const std::string& name,
                                         uint64_t limit);

  // What the exposer serves. Valid as long as this object.
  std::shared_ptr<prometheus::Collectable> collectable() const;
  // The exposition text, as a scrape would get it.
  std::string Text() const;

 private:
  std::shared_ptr<MetricFamilies> families_;
};

}  // namespace gpupool::server
