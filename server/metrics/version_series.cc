#include "server/metrics/version_series.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/base/check.h"
#include "server/metrics/failure_series.h"

namespace gpupool::server {
namespace {

using prometheus::Counter;
using prometheus::Family;
using prometheus::Gauge;
using prometheus::Histogram;

constexpr absl::string_view kVersionLabels = "model,version";

// Series that end with the object, so that unloaded versions leave the
// exposition. The destructor and a new series of the same labels both hold
// MetricFamilies::mutex, which puts them in order.
class VersionSeries : public VersionMetrics {
 public:
  VersionSeries(std::shared_ptr<MetricFamilies> families,
                const std::string& model, const std::string& version)
      : families_(std::move(families)),
        key_(model, version),
        gauges_(AddSeries<GaugeName>(families_->gauges)),
        counters_(AddSeries<CounterName>(families_->counters)),
        histograms_(AddSeries<HistogramName>(families_->histograms)),
        queue_(AddStage("queue")),
        compute_(AddStage("compute")),
        total_(AddStage("total")),
        failures_(families_.get(), model, version) {}

  ~VersionSeries() override {
    absl::MutexLock lock(&families_->mutex);
    // A new handle of the same version has taken the series over.
    const auto found = families_->versions.find(key_);
    if (found != families_->versions.end() && !found->second.expired()) return;
    if (found != families_->versions.end()) families_->versions.erase(found);
    RemoveSeries(families_->gauges, gauges_);
    RemoveSeries(families_->counters, counters_);
    RemoveSeries(families_->histograms, histograms_);
    for (Histogram* stage : {&queue_, &compute_, &total_}) {
      FamilyOf(HistogramName::kRequestDuration, families_->histograms)
          .Remove(stage);
    }
    for (auto& code : codes_) {
      if (code == nullptr) continue;
      FamilyOf(CounterName::kRequests, families_->counters).Remove(code);
    }
    failures_.Remove();
  }

  void CountRequest(absl::StatusCode code) override {
    const size_t index = std::min(static_cast<size_t>(code), codes_.size() - 1);
    Counter* counter = codes_[index].load(std::memory_order_acquire);
    if (counter == nullptr) {
      counter = &families_->Series(CounterName::kRequests,
                                   {key_.first, key_.second, CodeLabel(code)});
      codes_[index].store(counter, std::memory_order_release);
    }
    counter->Increment();
    if (code == absl::StatusCode::kOk) {
      Count(CounterName::kTritonSuccesses, 1);
    } else {
      failures_.Count(code);
    }
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
  void Set(GaugeName gauge, double value) override {
    Gauge* const series = SeriesOf(gauge, gauges_);
    if (series != nullptr) series->Set(value);
  }
  void Count(CounterName counter, double count) override {
    Counter* const series = SeriesOf(counter, counters_);
    if (series != nullptr) series->Increment(count);
  }
  void Observe(HistogramName histogram, double value) override {
    Histogram* const series = SeriesOf(histogram, histograms_);
    if (series != nullptr) series->Observe(value);
  }

 private:
  // Adds a series to each family of the labels "model,version". Null stands for
  // the others.
  template <typename Name, typename Series>
  std::vector<Series*> AddSeries(
      const std::vector<LabelledFamily<Series>>& families) {
    std::vector<Series*> all(families.size());
    const auto rows = RowsOf(Name());
    for (size_t i = 0; i < all.size(); ++i) {
      if (absl::string_view(rows[i].labels) != kVersionLabels) continue;
      if (!families_->Shows(Name(i))) continue;
      all[i] = &families_->Series(Name(i), {key_.first, key_.second});
    }
    return all;
  }
  template <typename Series>
  static void RemoveSeries(const std::vector<LabelledFamily<Series>>& families,
                           const std::vector<Series*>& all) {
    for (size_t i = 0; i < all.size(); ++i) {
      if (all[i] != nullptr) families[i].family->Remove(all[i]);
    }
  }
  // Returns null for a family that is left out.
  template <typename Name, typename Series>
  Series* SeriesOf(Name name, const std::vector<Series*>& all) const {
    Series* series = all[static_cast<size_t>(name)];
    GPUPOOL_CHECK(series != nullptr || !families_->Shows(name));
    return series;
  }
  template <typename Name, typename Series>
  static Family<Series>& FamilyOf(
      Name name, const std::vector<LabelledFamily<Series>>& families) {
    return *families[static_cast<size_t>(name)].family;
  }
  Histogram& AddStage(const char* stage) {
    return families_->Series(HistogramName::kRequestDuration,
                             {key_.first, key_.second, stage});
  }

  const std::shared_ptr<MetricFamilies> families_;
  const std::pair<std::string, std::string> key_;  // model and version
  const std::vector<Gauge*> gauges_;
  const std::vector<Counter*> counters_;
  const std::vector<Histogram*> histograms_;
  Histogram& queue_;
  Histogram& compute_;
  Histogram& total_;
  // Counter of each absl::StatusCode, made at its first use.
  std::array<std::atomic<Counter*>, 17> codes_{};
  FailureSeries failures_;
};

}  // namespace

std::shared_ptr<VersionMetrics> MakeVersionSeries(
    std::shared_ptr<MetricFamilies> families, const std::string& model,
    const std::string& version, uint64_t queue_limit) {
  auto series =
      std::make_shared<VersionSeries>(std::move(families), model, version);
  series->Set(GaugeName::kInferenceQueueLimit,
              static_cast<double>(queue_limit));
  return series;
}

}  // namespace gpupool::server
