#include "server/metrics/metrics.h"

#include <prometheus/text_serializer.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "server/metrics/families.h"
#include "server/metrics/job_series.h"
#include "server/metrics/version_series.h"

namespace gpupool::server {
namespace {

// Reasons of gpupool_device_faults_total.
constexpr char kLostContext[] = "lost_context";
constexpr char kSuspect[] = "suspect";

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

}  // namespace

Metrics::Metrics(const MetricsOptions& options)
    : families_(std::make_shared<MetricFamilies>(options)),
      running_jobs_(std::make_unique<JobSeries>(families_.get())) {
  SetJobs({});
  for (CheckpointPhase phase : {CheckpointPhase::kSave, CheckpointPhase::kWrite,
                                CheckpointPhase::kRestore}) {
    families_->Series(HistogramName::kCheckpointDuration, {LabelOf(phase)});
  }
}

Metrics::~Metrics() = default;

void Metrics::Set(GaugeName gauge, LabelValues labels, double value) {
  families_->Series(gauge, labels).Set(value);
}

std::function<void(double)> Metrics::Setter(GaugeName gauge,
                                            LabelValues labels) {
  return [families = families_, series = &families_->Series(gauge, labels)](
             double value) { series->Set(value); };
}

void Metrics::Count(CounterName counter, LabelValues labels, double count) {
  families_->Series(counter, labels).Increment(count);
}

void Metrics::Observe(HistogramName histogram, LabelValues labels,
                      double value) {
  families_->Series(histogram, labels).Observe(value);
}

void Metrics::Observe(HistogramName histogram, absl::Duration value) {
  Observe(histogram, {}, absl::ToDoubleSeconds(value));
}

void Metrics::SetJobs(const std::map<v1::JobState, uint64_t>& jobs) {
  for (int state = v1::QUEUED; state <= v1::CANCELLED; ++state) {
    const auto found = jobs.find(static_cast<v1::JobState>(state));
    const uint64_t count = found == jobs.end() ? 0 : found->second;
    Set(GaugeName::kJobs, {StateLabel(state)}, static_cast<double>(count));
  }
}

void Metrics::SetJob(const v1::Job& job) { running_jobs_->Set(job); }

void Metrics::SetRehearsals(size_t waiting) {
  Set(GaugeName::kRehearsalsWaiting, {}, static_cast<double>(waiting));
  for (const char* kind : {"job", "version"}) {
    for (const char* state : {"passed", "refused", "untried"}) {
      Count(CounterName::kRehearsals, {kind, state}, 0);
    }
  }
}

void Metrics::CountRehearsal(absl::string_view kind,
                             const absl::Status& status) {
  const char* const state = status.ok()                   ? "passed"
                            : absl::IsUnavailable(status) ? "untried"
                                                          : "refused";
  Count(CounterName::kRehearsals, {kind, state});
}

void Metrics::ObserveCheckpoint(CheckpointPhase phase,
                                absl::Duration duration) {
  Observe(HistogramName::kCheckpointDuration, {LabelOf(phase)},
          absl::ToDoubleSeconds(duration));
}

void Metrics::SetDeviceMemory(const v1::MemoryStats& stats) {
  const std::pair<const char*, uint64_t> kinds[] = {
      {"allocated", stats.allocated_bytes()},
      {"reserved", stats.reserved_bytes()},
      {"limit", stats.limit_bytes()},
      {"peak", stats.peak_allocated_bytes()}};
  for (const auto& [kind, bytes] : kinds) {
    Set(GaugeName::kDeviceMemory, {stats.device(), kind},
        static_cast<double>(bytes));
  }
}

void Metrics::SetDeviceUp(const std::string& device, bool up) {
  Set(GaugeName::kDeviceUp, {device}, up ? 1 : 0);
  // Makes the series, so that a device that never restarted has a 0.
  Count(CounterName::kWorkerRestarts, {device}, 0);
  Count(CounterName::kWorkerHangs, {device}, 0);
  families_->Series(GaugeName::kDeviceQuarantined, {device});
  for (const char* fault : {kLostContext, kSuspect}) {
    Count(CounterName::kDeviceFaults, {device, fault}, 0);
  }
}

void Metrics::SetGpuReadings(const v1::Device& device) {
  families_->gpus.Set(device);
  if (families_->options.triton_names) families_->triton_gpus.Set(device);
}

void Metrics::ClearGpuReadings(const std::string& device) {
  families_->gpus.Clear(device);
  families_->triton_gpus.Clear(device);
}

// Adds the difference to the last totals. After a restart of the worker its
// totals start anew, so all of them are new.
void Metrics::SetTrainingSteps(const std::string& device, uint64_t step_count,
                               double step_seconds_total) {
  constexpr HistogramName kSteps = HistogramName::kTrainingStep;
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
  const auto& bounds = RowsOf(kSteps)[static_cast<size_t>(kSteps)].bounds();
  // The worker reports totals only, so each of these steps counts with their
  // mean time.
  std::vector<double> increments(bounds.size() + 1, 0.0);
  const auto bucket =
      std::lower_bound(bounds.begin(), bounds.end(), seconds / steps);
  increments[static_cast<size_t>(bucket - bounds.begin())] = steps;
  families_->Series(kSteps, {device}).ObserveMultiple(increments, seconds);
}

void Metrics::CountWorkerLoss(const std::string& device,
                              absl::StatusCode reason) {
  const bool suspect = reason == absl::StatusCode::kDataLoss;
  Set(GaugeName::kDeviceQuarantined, {device}, suspect ? 1 : 0);
  if (!suspect) Count(CounterName::kWorkerRestarts, {device});
  if (reason == absl::StatusCode::kDeadlineExceeded) {
    Count(CounterName::kWorkerHangs, {device});
  }
  if (!suspect && reason != absl::StatusCode::kAborted) return;
  Count(CounterName::kDeviceFaults,
        {device, suspect ? kSuspect : kLostContext});
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
  Count(CounterName::kRequests, {"", "", CodeLabel(code)});
}

std::shared_ptr<prometheus::Collectable> Metrics::collectable() const {
  return families_->registry;
}

std::string Metrics::Text() const {
  return prometheus::TextSerializer().Serialize(families_->registry->Collect());
}

}  // namespace gpupool::server
