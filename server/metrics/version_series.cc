#include "server/metrics/version_series.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

namespace gpupool::server {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using prometheus::Labels;

// Series that end with the object, so that unloaded versions leave the
// exposition. The destructor and a new series of the same labels both hold
// Families::mutex, which puts them in order.
class VersionSeries : public VersionMetrics {
 public:
  VersionSeries(std::shared_ptr<MetricFamilies> families,
                const std::string& model, const std::string& version,
                uint64_t queue_limit)
      : families_(std::move(families)),
        key_(model, version),
        labels_{{"model", model}, {"version", version}},
        queue_(AddStage("queue")),
        compute_(AddStage("compute")),
        total_(AddStage("total")),
        batch_(families_->batch_size.Add(labels_, BatchBounds())),
        compiled_(families_->programs_compiled.Add(labels_)),
        evicted_(families_->programs_evicted.Add(labels_)),
        depth_(families_->inference_queue_depth.Add(labels_)),
        limit_(families_->inference_queue_limit.Add(labels_)),
        under_load_(families_->inference_under_load.Add(labels_)) {
    limit_.Set(static_cast<double>(queue_limit));
  }

  ~VersionSeries() override {
    absl::MutexLock lock(&families_->mutex);
    // A new handle of the same version has taken the series over.
    const auto found = families_->versions.find(key_);
    if (found != families_->versions.end() && !found->second.expired()) return;
    if (found != families_->versions.end()) families_->versions.erase(found);
    for (Histogram* stage : {&queue_, &compute_, &total_}) {
      families_->request_duration.Remove(stage);
    }
    families_->batch_size.Remove(&batch_);
    families_->programs_compiled.Remove(&compiled_);
    families_->programs_evicted.Remove(&evicted_);
    families_->inference_queue_depth.Remove(&depth_);
    families_->inference_queue_limit.Remove(&limit_);
    families_->inference_under_load.Remove(&under_load_);
    for (auto& code : codes_) {
      if (code != nullptr) families_->requests.Remove(code);
    }
  }

  void CountRequest(absl::StatusCode code) override {
    const size_t index = std::min(static_cast<size_t>(code), codes_.size() - 1);
    Counter* counter = codes_[index].load(std::memory_order_acquire);
    if (counter == nullptr) {
      Labels labels = labels_;
      labels["code"] = CodeLabel(code);
      counter = &families_->requests.Add(labels);
      codes_[index].store(counter, std::memory_order_release);
    }
    counter->Increment();
  }

  void ObserveQueue(absl::Duration duration) override {
    queue_.Observe(absl::ToDoubleSeconds(duration));
  }
  void ObserveCompute(absl::Duration duration) override {
    compute_.Observe(absl::ToDoubleSeconds(duration));
  }
  void ObserveTotal(absl::Duration duration) override {
    total_.Observe(absl::ToDoubleSeconds(duration));
  }
  void ObserveBatch(uint32_t rows) override { batch_.Observe(rows); }
  void CountPrograms(uint32_t compiled, uint32_t evicted) override {
    if (compiled > 0) compiled_.Increment(compiled);
    if (evicted > 0) evicted_.Increment(evicted);
  }
  void SetQueueDepth(uint64_t requests) override {
    depth_.Set(static_cast<double>(requests));
  }
  void SetUnderLoad(bool under_load) override {
    under_load_.Set(under_load ? 1 : 0);
  }

 private:
  Histogram& AddStage(const char* stage) {
    Labels labels = labels_;
    labels["stage"] = stage;
    return families_->request_duration.Add(labels, RequestBounds());
  }

  const std::shared_ptr<MetricFamilies> families_;
  const std::pair<std::string, std::string> key_;
  const Labels labels_;
  Histogram& queue_;
  Histogram& compute_;
  Histogram& total_;
  Histogram& batch_;
  Counter& compiled_;
  Counter& evicted_;
  Gauge& depth_;
  Gauge& limit_;
  Gauge& under_load_;
  // Counter of each absl::StatusCode, made at its first use.
  std::array<std::atomic<Counter*>, 17> codes_{};
};

}  // namespace

std::shared_ptr<VersionMetrics> MakeVersionSeries(
    std::shared_ptr<MetricFamilies> families, const std::string& model,
    const std::string& version, uint64_t queue_limit) {
  return std::make_shared<VersionSeries>(std::move(families), model, version,
                                         queue_limit);
}

}  // namespace gpupool::server
