// Every Prometheus family of the daemon. A family is one row of families.inc,
// and its enumerator here sets its series. Names follow Prometheus' rules:
// prefix gpupool_, base units, _total for counters. Readings of GPUs have the
// names of NVIDIA's exporter instead (gpu_series.h). Served versions and GPUs
// also have series with the names of Triton Inference Server, for dashboards
// and autoscalers that were made for it. No label grows with the number of
// clients or of jobs that ended; a bounded number of running jobs has series
// (job_series.h).
//
// Thread-safety: any thread. The request path holds a VersionMetrics, whose
// series are looked up once. An observation is then a few atomic operations.
//
// Ownership: handles keep alive what they need and may outlive Metrics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
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

class JobSeries;
struct MetricFamilies;

enum class GaugeName {
#define GPUPOOL_GAUGE(id, name, labels, help) id,
#include "server/metrics/families.inc"
};
enum class CounterName {
#define GPUPOOL_COUNTER(id, name, labels, help) id,
#include "server/metrics/families.inc"
};
enum class HistogramName {
#define GPUPOOL_HISTOGRAM(id, name, labels, bounds, help) id,
#include "server/metrics/families.inc"
};

// Values of a family's labels, in the order of its row.
using LabelValues = std::initializer_list<absl::string_view>;

// Series of one served model version. They disappear with the last handle.
class VersionMetrics {
 public:
  virtual ~VersionMetrics() = default;
  // Counts an answered request by its `code`, also by Triton's names. Call once
  // per request.
  virtual void CountRequest(absl::StatusCode code) = 0;
  // Observes the time from arrival until the batch was handed to a worker.
  virtual void ObserveQueue(absl::Duration duration) = 0;
  // Observes the worker's time for the batch.
  virtual void ObserveCompute(absl::Duration duration) = 0;
  // Observes the time from arrival to the answer.
  virtual void ObserveTotal(absl::Duration duration) = 0;
  // Set, count and observe as Metrics does, in the families with the labels
  // "model,version". No-ops for a family of Triton that is left out.
  virtual void Set(GaugeName gauge, double value) = 0;
  virtual void Count(CounterName counter, double count) = 0;
  virtual void Observe(HistogramName histogram, double value) = 0;
};

// Values of labels.
enum class CheckpointPhase { kSave, kWrite, kRestore };

struct MetricsOptions {
  bool triton_names = true;  // whether families of Triton have series
};

class Metrics {
 public:
  explicit Metrics(const MetricsOptions& options = {});
  ~Metrics();
  Metrics(const Metrics&) = delete;
  Metrics& operator=(const Metrics&) = delete;

  // Sets the gauge.
  void Set(GaugeName gauge, LabelValues labels, double value);
  // Returns a function that sets the gauge without a look-up of its series. The
  // function may outlive this object.
  std::function<void(double value)> Setter(GaugeName gauge, LabelValues labels);
  // Adds to the counter. With 0 it only has its series from then on.
  void Count(CounterName counter, LabelValues labels, double count = 1);
  // Observes the value, which has the unit of the histogram's name.
  void Observe(HistogramName histogram, LabelValues labels, double value);
  void Observe(HistogramName histogram, absl::Duration value);

  // ---------------------------------------------------------- jobs, control
  // Sets the number of jobs in each state; absent states are set to 0.
  void SetJobs(const std::map<v1::JobState, uint64_t>& jobs);
  // Sets the series of a running job from its progress and evaluation. Removes
  // those of a job in any other state.
  void SetJob(const v1::Job& job);
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

  // ---------------------------------------------------------------- devices
  // Sets the allocated, reserved, limit and peak bytes of stats.device().
  void SetDeviceMemory(const v1::MemoryStats& stats);
  // Sets whether the device's worker is connected, and adds the series of what
  // is counted about it.
  void SetDeviceUp(const std::string& device, bool up);
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

  // Returns all families with their series, for tests to look at.
  std::shared_ptr<prometheus::Collectable> collectable() const;
  // Returns the exposition text that a scrape would get.
  std::string Text() const;

 private:
  std::shared_ptr<MetricFamilies> families_;
  std::unique_ptr<JobSeries> running_jobs_;
};

}  // namespace gpupool::server
