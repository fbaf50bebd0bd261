// Private to server/metrics: a reading of a GPU as a gauge.
//
// Pure functions; any thread.
#pragma once

#include <prometheus/family.h>
#include <prometheus/gauge.h>
#include <prometheus/labels.h>
#include <prometheus/registry.h>

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "gpupool/v1/device.pb.h"

namespace gpupool::server {

using GaugeFamily = prometheus::Family<prometheus::Gauge>;

struct GpuGauge {
  const char* name;
  const char* help;
  // Returns nothing if the GPU does not report the number.
  std::optional<double> (*value)(const v1::Device& device);
};

// Makes the `value` of a GpuGauge: readings().field() times `factor`.
#define GPUPOOL_GPU_READING(field, factor)                                 \
  [](const v1::Device& d) {                                                \
    return d.readings().has_##field()                                      \
               ? std::optional<double>(                                    \
                     static_cast<double>(d.readings().field()) * (factor)) \
               : std::nullopt;                                             \
  }

// Adds a family for each gauge, in their order.
inline std::vector<GaugeFamily*> RegisterGauges(
    absl::Span<const GpuGauge> gauges, prometheus::Registry& registry) {
  std::vector<GaugeFamily*> families;
  for (const GpuGauge& gauge : gauges) {
    families.push_back(&prometheus::BuildGauge()
                            .Name(gauge.name)
                            .Help(gauge.help)
                            .Register(registry));
  }
  return families;
}

// Sets the series with these labels. Removes it if there is no value.
inline void SetReading(GaugeFamily& family, const prometheus::Labels& labels,
                       std::optional<double> value) {
  if (value.has_value()) {
    family.Add(labels).Set(*value);
  } else if (family.Has(labels)) {
    family.Remove(&family.Add(labels));
  }
}

}  // namespace gpupool::server
