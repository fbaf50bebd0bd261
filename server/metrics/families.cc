#include "server/metrics/families.h"

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "engine/base/check.h"

namespace gpupool::server {
namespace {

using prometheus::Counter;
using prometheus::Gauge;
using prometheus::Histogram;
using Bounds = Histogram::BucketBoundaries;

const Bounds& WaitBounds() {
  static const Bounds bounds{0.01, 0.05, 0.1, 0.5, 1,    5,     10,
                             30,   60,   300, 900, 3600, 14400, 86400};
  return bounds;
}

const Bounds& PredictionErrorBounds() {
  static const Bounds bounds = {-36000, -3600, -600, -60, -10,  -1,   0,
                                1,      10,    60,   600, 3600, 36000};
  return bounds;
}

const Bounds& CommitBounds() {
  static const Bounds bounds{0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025,
                             0.05,   0.1,   0.25,   0.5,   1,    5};
  return bounds;
}

const Bounds& DecisionBounds() {
  static const Bounds bounds{0.000001, 0.00001, 0.0001, 0.001, 0.01, 0.1, 1};
  return bounds;
}

const Bounds& StepBounds() {
  static const Bounds bounds{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005,
                             0.01,   0.025,   0.05,   0.1,   0.25,   0.5,
                             1,      2.5,     5,      10,    30};
  return bounds;
}

const Bounds& CheckpointBounds() {
  static const Bounds bounds{0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                             0.5,   1,      2.5,   5,    10,    30,   60,  300};
  return bounds;
}

const Bounds& RequestBounds() {
  static const Bounds bounds{0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025,
                             0.005,   0.01,   0.025,   0.05,   0.1,   0.25,
                             0.5,     1,      2.5,     5,      10};
  return bounds;
}

const Bounds& BatchBounds() {
  static const Bounds bounds{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024};
  return bounds;
}

constexpr FamilyRow kGauges[] = {
#define GPUPOOL_GAUGE(id, name, labels, help) {name, labels, help, nullptr},
#include "server/metrics/families.inc"
};

constexpr FamilyRow kCounters[] = {
#define GPUPOOL_COUNTER(id, name, labels, help) {name, labels, help, nullptr},
#include "server/metrics/families.inc"
};

constexpr FamilyRow kHistograms[] = {
#define GPUPOOL_HISTOGRAM(id, name, labels, bounds, help) \
  {name, labels, help, bounds},
#include "server/metrics/families.inc"
};

// Registers the family of the row.
template <typename Series, typename Builder>
LabelledFamily<Series> Register(Builder builder, const FamilyRow& row,
                                prometheus::Registry& registry) {
  return {&builder.Name(row.name).Help(row.help).Register(registry),
          absl::StrSplit(row.labels, ',', absl::SkipEmpty())};
}

// Returns the series with these label values; `arguments` make a new one.
// Family::Add makes a series even if there is one. So the families without
// labels, which are used in each transaction, remember theirs.
template <typename Series, typename... Arguments>
Series& Add(const LabelledFamily<Series>& family, LabelValues values,
            const Arguments&... arguments) {
  GPUPOOL_CHECK(values.size() == family.labels.size());
  if (family.only != nullptr) return *family.only;
  prometheus::Labels labels;
  auto name = family.labels.begin();
  for (absl::string_view value : values) labels[*name++] = std::string(value);
  return family.family->Add(labels, arguments...);
}

}  // namespace

bool IsOfTriton(const FamilyRow& row) {
  return absl::StartsWith(row.name, "nv_");
}

absl::Span<const FamilyRow> RowsOf(GaugeName) { return kGauges; }
absl::Span<const FamilyRow> RowsOf(CounterName) { return kCounters; }
absl::Span<const FamilyRow> RowsOf(HistogramName) { return kHistograms; }

std::string CodeLabel(absl::StatusCode code) {
  const std::string name = absl::StatusCodeToString(code);
  return name.empty() ? "UNKNOWN" : name;
}

MetricFamilies::MetricFamilies(const MetricsOptions& chosen) : options(chosen) {
  for (const FamilyRow& row : kGauges) {
    gauges.push_back(Register<Gauge>(prometheus::BuildGauge(), row, *registry));
    if (gauges.back().labels.empty()) {
      gauges.back().only = &Add(gauges.back(), {});
    }
  }
  for (const FamilyRow& row : kCounters) {
    counters.push_back(
        Register<Counter>(prometheus::BuildCounter(), row, *registry));
    if (counters.back().labels.empty()) {
      counters.back().only = &Add(counters.back(), {});
    }
  }
  for (const FamilyRow& row : kHistograms) {
    histograms.push_back(
        Register<Histogram>(prometheus::BuildHistogram(), row, *registry));
    if (histograms.back().labels.empty()) {
      histograms.back().only = &Add(histograms.back(), {}, row.bounds());
    }
  }
}

Gauge& MetricFamilies::Series(GaugeName name, LabelValues values) {
  return Add(gauges[static_cast<size_t>(name)], values);
}

Counter& MetricFamilies::Series(CounterName name, LabelValues values) {
  return Add(counters[static_cast<size_t>(name)], values);
}

Histogram& MetricFamilies::Series(HistogramName name, LabelValues values) {
  const auto index = static_cast<size_t>(name);
  return Add(histograms[index], values, kHistograms[index].bounds());
}

void MetricFamilies::Remove(GaugeName name, Gauge* series) {
  const LabelledFamily<Gauge>& family = gauges[static_cast<size_t>(name)];
  GPUPOOL_CHECK(!family.labels.empty());
  family.family->Remove(series);
}

void MetricFamilies::Remove(CounterName name, Counter* series) {
  const LabelledFamily<Counter>& family = counters[static_cast<size_t>(name)];
  GPUPOOL_CHECK(!family.labels.empty());
  family.family->Remove(series);
}

}  // namespace gpupool::server
