// Private to server/metrics: the families of families.inc and their series. The
// series of devices, versions and queues belong to them.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "server/metrics/gpu_series.h"
#include "server/metrics/metrics.h"
#include "server/metrics/triton_gpu_series.h"

namespace gpupool::server {

// A row of families.inc.
struct FamilyRow {
  const char* name;
  const char* labels;
  const char* help;
  // Upper bounds of a histogram's buckets; null for other families.
  const prometheus::Histogram::BucketBoundaries& (*bounds)();
};

// Returns whether the family has the name of one of Triton's.
bool IsOfTriton(const FamilyRow& row);

// Return the rows in the order of the enumerators.
absl::Span<const FamilyRow> RowsOf(GaugeName name);
absl::Span<const FamilyRow> RowsOf(CounterName name);
absl::Span<const FamilyRow> RowsOf(HistogramName name);

// A family of the registry, with the names of its labels.
template <typename Series>
struct LabelledFamily {
  prometheus::Family<Series>* family;
  std::vector<std::string> labels;
  Series* only = nullptr;  // the series of a family without labels
};

// Returns "INVALID_ARGUMENT", the value of label code.
std::string CodeLabel(absl::StatusCode code);

struct MetricFamilies {
  explicit MetricFamilies(const MetricsOptions& options = {});
  MetricFamilies(const MetricFamilies&) = delete;
  MetricFamilies& operator=(const MetricFamilies&) = delete;

  // Return the series with these label values, which they add when it is new.
  prometheus::Gauge& Series(GaugeName name, LabelValues values);
  prometheus::Counter& Series(CounterName name, LabelValues values);
  prometheus::Histogram& Series(HistogramName name, LabelValues values);
  // Remove a series of the family, which must have labels.
  void Remove(GaugeName name, prometheus::Gauge* series);
  void Remove(CounterName name, prometheus::Counter* series);
  // Returns whether the family may have series: all but those of Triton do
  // without MetricsOptions::triton_names.
  template <typename Name>
  bool Shows(Name name) const {
    return options.triton_names ||
           !IsOfTriton(RowsOf(name)[static_cast<size_t>(name)]);
  }

  struct Steps {
    uint64_t count = 0;
    double seconds = 0;
  };

  const MetricsOptions options;
  const std::shared_ptr<prometheus::Registry> registry =
      std::make_shared<prometheus::Registry>();
  // Families by their enumerators.
  std::vector<LabelledFamily<prometheus::Gauge>> gauges;
  std::vector<LabelledFamily<prometheus::Counter>> counters;
  std::vector<LabelledFamily<prometheus::Histogram>> histograms;

  GpuSeries gpus{registry.get()};
  TritonGpuSeries triton_gpus{registry.get()};

  absl::Mutex mutex;
  std::map<std::string, Steps> steps ABSL_GUARDED_BY(mutex);
  std::map<std::pair<std::string, std::string>, std::weak_ptr<VersionMetrics>>
      versions ABSL_GUARDED_BY(mutex);
};

}  // namespace gpupool::server
