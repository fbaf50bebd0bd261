// Checks that docs/metrics.md lists every family. GPUPOOL_WRITE_DOCS=1 writes
// it.
#include "server/metrics/families.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "scheduler/yield/preemption_reasons.h"
#include "server/metrics/metrics.h"
#include "tests/test_paths.h"

namespace gpupool::server {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;

constexpr absl::string_view kIntroduction = R"(# Metrics

The server answers scrapes of Prometheus on its metrics port:
`http://127.0.0.1:8002/metrics` unless `--listen` or `--metrics-port` says
otherwise.

```sh
curl -s http://$GPUPOOL_METRICS/metrics | grep '^gpupool_device_memory_bytes'
```

`GPUPOOL_METRICS` stands for `127.0.0.1:8002` on this page.
[deploy/prometheus](../deploy/prometheus) has a scrape configuration and alert
rules, [deploy/grafana](../deploy/grafana) a dashboard.

A client that accepts gzip gets the text in gzip. Silent and slow clients are cut
off as on the [HTTP port](http_api.md#limits-of-the-port). The port takes at most
256 connections, and 64 of one client on another machine.

This page is made from the families in the source. A test fails when the page is
out of date, and writes it when `GPUPOOL_WRITE_DOCS=1` is set.

A label with a closed set of values has these values in brackets. A histogram
`NAME` has the series `NAME_bucket`, `NAME_sum` and `NAME_count`.

## gpupool
)";

constexpr absl::string_view kGpus = R"(
## GPUs

These have the names, units and labels of NVIDIA's DCGM exporter, so that
dashboards made for it work. They exist from the first GPU on. What a GPU does
not tell has no series.
)";

constexpr absl::string_view kTriton = R"(
## Triton Inference Server

These have the names, units and labels of Triton Inference Server's metrics, so
that dashboards and autoscalers made for it work. `--triton-metrics=false` leaves
them out.

- Series of a version exist while it is served, as those of `gpupool_inference_`.
- Durations are sums over the requests that were answered with success.
- Requests for a model that is not served are not counted.
- A request that was answered from the response cache counts in
  `nv_inference_request_success` and `nv_inference_request_duration_us`, and in no other
  series of `nv_inference_`.
- Series with the label `gpu_uuid` exist from the first GPU on. What a GPU does not
  tell has no series.

The mean time in the queue, in microseconds, for example for an autoscaler:

```text
rate(nv_inference_queue_duration_us[1m]) / rate(nv_inference_request_success[1m])
```
)";

constexpr absl::string_view kTableHead =
    "\n| name | type | labels | meaning |\n|---|---|---|---|\n";

void TellOfDevices(Metrics& metrics) {
  v1::MemoryStats stats;
  stats.set_device("cpu:0");
  metrics.SetDeviceMemory(stats);
  metrics.SetDeviceUp("cpu:0", true);
  metrics.SetTrainingSteps("cpu:0", 1, 1);
  v1::Device gpu;
  gpu.set_name("cuda:0");
  gpu.mutable_gpu()->set_total_bytes(1);
  v1::GpuReadings& readings = *gpu.mutable_readings();
  readings.set_utilization(0);
  readings.set_memory_utilization(0);
  readings.set_used_bytes(0);
  readings.set_temperature_celsius(0);
  readings.set_power_watts(0);
  readings.set_power_limit_watts(0);
  readings.set_multiprocessor_clock_mhz(0);
  readings.set_memory_clock_mhz(0);
  readings.set_ecc_corrected(0);
  readings.set_ecc_uncorrected(0);
  readings.set_energy_joules(0);
  metrics.SetGpuReadings(gpu);
}

// Returns whether the values of a label are known beforehand.
bool IsClosed(const std::string& label) {
  static const std::set<std::string> closed = {
      "class", "kind", "outcome", "phase", "reason", "stage", "state"};
  return closed.contains(label);
}

// Calls `add` for each family whose labels have any value.
template <typename Name>
void ForOpenFamilies(const std::function<void(Name, LabelValues)>& add) {
  const auto rows = RowsOf(Name());
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::vector<std::string> labels =
        absl::StrSplit(rows[i].labels, ',', absl::SkipEmpty());
    if (std::any_of(labels.begin(), labels.end(), IsClosed)) continue;
    ASSERT_LE(labels.size(), 3u) << rows[i].name;
    if (labels.size() == 1) add(Name(i), {"x"});
    if (labels.size() == 2) add(Name(i), {"x", "x"});
    if (labels.size() == 3) add(Name(i), {"x", "x", "x"});
  }
}

void AddOpenSeries(Metrics& metrics) {
  ForOpenFamilies<GaugeName>([&](GaugeName name, LabelValues labels) {
    metrics.Set(name, labels, 0);
  });
  ForOpenFamilies<CounterName>([&](CounterName name, LabelValues labels) {
    metrics.Count(name, labels, 0);
  });
  ForOpenFamilies<HistogramName>([&](HistogramName name, LabelValues labels) {
    metrics.Observe(name, labels, 0);
  });
}

// Returns the families of a server that has done everything that is counted.
std::vector<MetricFamily> Collect() {
  Metrics metrics;
  AddOpenSeries(metrics);
  for (const char* state : {"waiting", "running"}) {
    metrics.Set(GaugeName::kQueueJobs, {"default", state}, 0);
  }
  TellOfDevices(metrics);
  metrics.SetRehearsals(0);
  for (const auto& row : scheduler::PreemptionRows()) {
    metrics.Count(CounterName::kPreemptions, {row.label}, 0);
  }
  for (const char* outcome : {"sent", "dropped", "failed"}) {
    metrics.Count(CounterName::kTraceSpans, {outcome}, 0);
  }
  for (const char* outcome : {"written", "lost", "counted"}) {
    metrics.Count(CounterName::kAuditRecords, {outcome}, 0);
  }
  const auto version = metrics.ForVersion("digits", "1", 1);
  version->CountRequest(absl::StatusCode::kOk);
  return metrics.collectable()->Collect();
}

const char* TypeOf(MetricType type) {
  switch (type) {
    case MetricType::Counter:
      return "counter";
    case MetricType::Gauge:
      return "gauge";
    case MetricType::Histogram:
      return "histogram";
    default:
      return "other";
  }
}

std::string LabelsOf(const MetricFamily& family) {
  std::map<std::string, std::set<std::string>> values;
  for (const auto& metric : family.metric) {
    for (const auto& label : metric.label) {
      values[label.name].insert(label.value);
    }
  }
  std::vector<std::string> cells;
  for (const auto& [name, known] : values) {
    cells.push_back(
        IsClosed(name)
            ? absl::StrCat("`", name, "` (", absl::StrJoin(known, ", "), ")")
            : absl::StrCat("`", name, "`"));
  }
  return absl::StrJoin(cells, ", ");
}

std::string Page() {
  std::map<std::string, std::string> own, of_gpus, of_triton;
  for (const MetricFamily& family : Collect()) {
    auto& rows = absl::StartsWith(family.name, "DCGM_") ? of_gpus
                 : absl::StartsWith(family.name, "nv_") ? of_triton
                                                        : own;
    rows[family.name] =
        absl::StrCat("| `", family.name, "` | ", TypeOf(family.type), " | ",
                     LabelsOf(family), " | ", family.help, " |\n");
  }
  std::string text = absl::StrCat(kIntroduction, kTableHead);
  for (const auto& [name, row] : own) absl::StrAppend(&text, row);
  absl::StrAppend(&text, kGpus, kTableHead);
  for (const auto& [name, row] : of_gpus) absl::StrAppend(&text, row);
  absl::StrAppend(&text, kTriton, kTableHead);
  for (const auto& [name, row] : of_triton) absl::StrAppend(&text, row);
  return text;
}

std::string ReadSource(const std::string& path) {
  std::ifstream file(SourcePath(path), std::ios::binary);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

TEST(FamiliesTest, ThePageListsThemAll) {
  const std::string page = Page();
  const char* write = std::getenv("GPUPOOL_WRITE_DOCS");
  if (write != nullptr && std::string(write) == "1") {
    std::ofstream(SourcePath("docs/metrics.md"), std::ios::binary) << page;
  }
  EXPECT_EQ(page, ReadSource("docs/metrics.md"))
      << "write it: GPUPOOL_WRITE_DOCS=1 server_metrics_test "
         "--gtest_filter=FamiliesTest.*";
}

// Returns whether a text of the source is the name of a family.
bool IsFamilyName(const std::string& text) {
  const absl::string_view prefixes[] = {"gpupool_", "DCGM_", "nv_"};
  return text != "nv_" && std::any_of(std::begin(prefixes), std::end(prefixes),
                                      [&](auto prefix) {
                                        return absl::StartsWith(text, prefix);
                                      });
}

// A family without a series is not collected, but the page must list it.
TEST(FamiliesTest, ThePageKnowsEveryNameInTheSource) {
  const std::string page = Page();
  for (const char* path :
       {"server/metrics/families.inc", "server/metrics/gpu_series.cc",
        "server/metrics/triton_gpu_series.cc"}) {
    const std::vector<std::string> parts =
        absl::StrSplit(ReadSource(path), '"');
    for (const std::string& part : parts) {
      if (!IsFamilyName(part)) continue;
      EXPECT_TRUE(absl::StrContains(page, absl::StrCat("| `", part, "` |")))
          << part;
    }
  }
}

}  // namespace
}  // namespace gpupool::server
