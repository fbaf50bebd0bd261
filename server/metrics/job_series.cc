#include "server/metrics/job_series.h"

#include <iterator>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "server/metrics/families.h"

namespace gpupool::server {
namespace {

struct JobGauge {
  GaugeName name;
  std::optional<double> (*value)(const v1::Job& job);
};

constexpr JobGauge kJobGauges[] = {
    {GaugeName::kJobStep,
     [](const v1::Job& job) -> std::optional<double> {
       return static_cast<double>(job.progress().step());
     }},
    {GaugeName::kJobTotalSteps,
     [](const v1::Job& job) -> std::optional<double> {
       return static_cast<double>(job.progress().total_steps());
     }},
    {GaugeName::kJobSamplesPerSecond,
     [](const v1::Job& job) -> std::optional<double> {
       if (!job.progress().has_samples_per_second()) return std::nullopt;
       return job.progress().samples_per_second();
     }},
    {GaugeName::kJobLoss,
     [](const v1::Job& job) -> std::optional<double> {
       if (!job.progress().has_loss()) return std::nullopt;
       return job.progress().loss();
     }},
    {GaugeName::kJobLearningRate,
     [](const v1::Job& job) -> std::optional<double> {
       if (!job.progress().has_learning_rate()) return std::nullopt;
       return job.progress().learning_rate();
     }},
    {GaugeName::kJobAccuracy,
     [](const v1::Job& job) -> std::optional<double> {
       if (!job.evaluation().has_accuracy()) return std::nullopt;
       return job.evaluation().accuracy();
     }},
};

}  // namespace

JobSeries::JobSeries(MetricFamilies* families) : families_(families) {
  families_->Series(GaugeName::kJobSeriesLimit, {})
      .Set(static_cast<double>(kMostJobsWithSeries));
}

void JobSeries::Set(const v1::Job& job) {
  absl::MutexLock lock(&mutex_);
  if (job.state() != v1::RUNNING) {
    Remove(job.id());
  } else if (Gauges* const gauges = Find(job.id())) {
    const std::string id = absl::StrCat(job.id());
    for (size_t i = 0; i < gauges->size(); ++i) {
      const GaugeName name = kJobGauges[i].name;
      prometheus::Gauge*& gauge = (*gauges)[i];
      const std::optional<double> value = kJobGauges[i].value(job);
      if (value.has_value()) {
        if (gauge == nullptr) {
          gauge = &families_->Series(name, {id, job.spec().tenant()});
        }
        gauge->Set(*value);
      } else if (gauge != nullptr) {
        families_->Remove(name, gauge);
        gauge = nullptr;
      }
    }
  }
  families_->Series(GaugeName::kJobsWithoutSeries, {})
      .Set(static_cast<double>(others_.size()));
}

JobSeries::Gauges* JobSeries::Find(uint64_t id) {
  const auto found = jobs_.find(id);
  if (found != jobs_.end()) return &found->second;
  if (jobs_.size() >= kMostJobsWithSeries) {
    others_.insert(id);
    return nullptr;
  }
  others_.erase(id);
  return &jobs_.emplace(id, Gauges(std::size(kJobGauges))).first->second;
}

void JobSeries::Remove(uint64_t id) {
  others_.erase(id);
  const auto found = jobs_.find(id);
  if (found == jobs_.end()) return;
  for (size_t i = 0; i < found->second.size(); ++i) {
    if (found->second[i] == nullptr) continue;
    families_->Remove(kJobGauges[i].name, found->second[i]);
  }
  jobs_.erase(found);
}

}  // namespace gpupool::server
