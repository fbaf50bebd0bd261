#include "server/metrics/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "server/metrics/families.h"
#include "server/metrics/version_series.h"

namespace gpupool::server {
namespace {

// Reasons of gpupool_device_faults_total.
constexpr char kLostContext[] = "lost_context";
constexpr char kSuspect[] = "suspect";

using prometheus::Gauge;

// Returns "running" for RUNNING.
std::string StateLabel(int state) {
  return absl::AsciiStrToLower(
      v1::JobState_Name(static_cast<v1::JobState>(state)));
}

const char* LabelOf(CheckpointPhase phase) {
  switch (phase) {
    case CheckpointPhase::kSave:
      return "save";
    case CheckpointPhase::kWrite:
      return "write";
    case CheckpointPhase::kRestore:
      return "restore";
  }
  return "";
}

class QueueSeries : public QueueMetrics {
 public:
  QueueSeries(std::shared_ptr<MetricFamilies> families, Gauge& depth)
      : families_(std::move(families)), depth_(depth) {}
  void SetDepth(uint64_t depth) override {
    depth_.Set(static_cast<double>(depth));
  }

 private:
  const std::shared_ptr<MetricFamilies> families_;  // owns depth_
  Gauge& depth_;
};

}  // namespace

Metrics::Metrics() : families_(std::make_shared<MetricFamilies>()) {
  SetJobs({});
  for (CheckpointPhase phase : {CheckpointPhase::kSave, CheckpointPhase::kWrite,
                                CheckpointPhase::kRestore}) {
    families_->checkpoint_duration.Add({{"phase", LabelOf(phase)}},
                                       CheckpointBounds());
  }
}

Metrics::~Metrics() = default;

void Metrics::SetBuildInfo(const std::string& version,
                           const std::string& commit) {
  families_->build_info.Add({{"version", version}, {"commit", commit}}).Set(1);
}

void Metrics::SetJobs(const std::map<v1::JobState, uint64_t>& jobs) {
  for (int state = v1::QUEUED; state <= v1::CANCELLED; ++state) {
    const auto found = jobs.find(static_cast<v1::JobState>(state));
    const uint64_t count = found == jobs.end() ? 0 : found->second;
    families_->jobs.Add({{"state", StateLabel(state)}})
        .Set(static_cast<double>(count));
  }
}

void Metrics::ObserveQueueWait(absl::Duration duration) {
  families_->queue_wait.Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::ObservePredictionError(absl::Duration error) {
  families_->prediction_error.Observe(absl::ToDoubleSeconds(error));
}

void Metrics::DeclarePreemption(absl::string_view reason) {
  families_->preemptions.Add({{"reason", std::string(reason)}});
}

void Metrics::CountPreemption(absl::string_view reason) {
  families_->preemptions.Add({{"reason", std::string(reason)}}).Increment();
}

void Metrics::SetQueue(const std::string& queue, uint64_t waiting,
                       uint64_t running, uint32_t devices) {
  const auto set = [&](const char* state, uint64_t count) {
    families_->queue_jobs.Add({{"queue", queue}, {"state", state}})
        .Set(static_cast<double>(count));
  };
  set("waiting", waiting);
  set("running", running);
  families_->queue_devices.Add({{"queue", queue}}).Set(devices);
}

void Metrics::SetReservedDevices(uint32_t devices) {
  families_->reserved_devices.Set(devices);
}

void Metrics::CountBlamedJobs(uint64_t count) {
  families_->blamed_jobs.Increment(static_cast<double>(count));
}

void Metrics::SetRehearsals(size_t waiting) {
  families_->rehearsals_waiting.Set(static_cast<double>(waiting));
  for (const char* kind : {"job", "version"}) {
    for (const char* state : {"passed", "refused", "untried"}) {
      families_->rehearsals.Add({{"kind", kind}, {"state", state}});
    }
  }
}

void Metrics::CountRehearsal(absl::string_view kind,
                             const absl::Status& status) {
  const char* const state = status.ok()                   ? "passed"
                            : absl::IsUnavailable(status) ? "untried"
                                                          : "refused";
  families_->rehearsals.Add({{"kind", std::string(kind)}, {"state", state}})
      .Increment();
}

void Metrics::ObserveCheckpoint(CheckpointPhase phase,
                                absl::Duration duration) {
  families_->checkpoint_duration
      .Add({{"phase", LabelOf(phase)}}, CheckpointBounds())
      .Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::ObserveStoreCommit(absl::Duration duration) {
  families_->store_commit.Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::ObserveSchedulerDecision(absl::Duration duration) {
  families_->decision.Observe(absl::ToDoubleSeconds(duration));
}

void Metrics::CountReconcileMismatches(uint64_t count) {
  families_->reconcile_mismatches.Increment(static_cast<double>(count));
}

void Metrics::SetDeviceMemory(const v1::MemoryStats& stats) {
  const std::pair<const char*, uint64_t> kinds[] = {
      {"allocated", stats.allocated_bytes()},
      {"reserved", stats.reserved_bytes()},
      {"limit", stats.limit_bytes()},
      {"peak", stats.peak_allocated_bytes()}};
  for (const auto& [kind, bytes] : kinds) {
    families_->device_memory.Add({{"device", stats.device()}, {"kind", kind}})
        .Set(static_cast<double>(bytes));
  }
}

void Metrics::SetDeviceUtilization(const std::string& device, double ratio) {
  families_->device_utilization.Add({{"device", device}}).Set(ratio);
}

void Metrics::SetDeviceUp(const std::string& device, bool up) {
  families_->device_up.Add({{"device", device}}).Set(up ? 1 : 0);
  // Makes the series, so that a device that never restarted has a 0.
  families_->worker_restarts.Add({{"device", device}});
  families_->worker_hangs.Add({{"device", device}});
  families_->device_quarantined.Add({{"device", device}});
  for (const char* fault : {kLostContext, kSuspect}) {
    families_->device_faults.Add({{"device", device}, {"class", fault}});
  }
}

void Metrics::SetDeviceFaults(const std::string& device, uint32_t in_a_row,
                              bool cools) {
  families_->device_faults_in_a_row.Add({{"device", device}}).Set(in_a_row);
  families_->device_cooling.Add({{"device", device}}).Set(cools ? 1 : 0);
}

void Metrics::SetDeviceDrained(const std::string& device, bool drained) {
  families_->device_drained.Add({{"device", device}}).Set(drained ? 1 : 0);
}

void Metrics::SetGpuReadings(const v1::Device& device) {
  families_->gpus.Set(device);
}

void Metrics::ClearGpuReadings(const std::string& device) {
  families_->gpus.Clear(device);
}

// Adds the difference to the last totals. After a restart of the worker its
// totals start anew, so all of them are new.
void Metrics::SetTrainingSteps(const std::string& device, uint64_t step_count,
                               double step_seconds_total) {
  MetricFamilies::Steps before;
  {
    absl::MutexLock lock(&families_->mutex);
    before = families_->steps[device];
    if (step_count < before.count) before = {};
    families_->steps[device] = {step_count, step_seconds_total};
  }
  if (step_count == before.count) return;
  const auto steps = static_cast<double>(step_count - before.count);
  const double seconds = std::max(0.0, step_seconds_total - before.seconds);
  const auto& bounds = StepBounds();
  // The worker reports totals only, so each of these steps counts with their
  // mean time.
  std::vector<double> increments(bounds.size() + 1, 0.0);
  const auto bucket =
      std::lower_bound(bounds.begin(), bounds.end(), seconds / steps);
  increments[static_cast<size_t>(bucket - bounds.begin())] = steps;
  families_->training_step.Add({{"device", device}}, bounds)
      .ObserveMultiple(increments, seconds);
}

void Metrics::CountWorkerLoss(const std::string& device,
                              absl::StatusCode reason) {
  const bool suspect = reason == absl::StatusCode::kDataLoss;
  families_->device_quarantined.Add({{"device", device}}).Set(suspect ? 1 : 0);
  if (!suspect)
    families_->worker_restarts.Add({{"device", device}}).Increment();
  if (reason == absl::StatusCode::kDeadlineExceeded) {
    families_->worker_hangs.Add({{"device", device}}).Increment();
  }
  if (!suspect && reason != absl::StatusCode::kAborted) return;
  families_->device_faults
      .Add({{"device", device}, {"class", suspect ? kSuspect : kLostContext}})
      .Increment();
}

std::shared_ptr<VersionMetrics> Metrics::ForVersion(const std::string& model,
                                                    const std::string& version,
                                                    uint64_t queue_limit) {
  absl::MutexLock lock(&families_->mutex);
  auto& known = families_->versions[{model, version}];
  if (auto series = known.lock()) return series;
  auto series = MakeVersionSeries(families_, model, version, queue_limit);
  known = series;
  return series;
}

void Metrics::CountUnroutedRequest(absl::StatusCode code) {
  families_->requests
      .Add({{"model", ""}, {"version", ""}, {"code", CodeLabel(code)}})
      .Increment();
}

std::shared_ptr<QueueMetrics> Metrics::ForQueue(const std::string& name,
                                                uint64_t limit) {
  families_->queue_limit.Add({{"queue", name}}).Set(static_cast<double>(limit));
  return std::make_shared<QueueSeries>(
      families_, families_->queue_depth.Add({{"queue", name}}));
}

std::shared_ptr<prometheus::Collectable> Metrics::collectable() const {
  return families_->registry;
}

std::string Metrics::Text() const {
  return prometheus::TextSerializer().Serialize(families_->registry->Collect());
}

}  // namespace gpupool::server
