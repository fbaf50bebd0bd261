// Private to server/metrics: what GPUs tell, under the names, in the units and
// with the labels of NVIDIA's DCGM exporter, so that dashboards and alerts made
// for it work here. Families exist from the first GPU on; a number that a GPU
// does not tell has no series.
//
// Thread-safety: any thread. The registry outlives it.
#pragma once

#include <prometheus/gauge.h>
#include <prometheus/registry.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/v1/device.pb.h"

namespace gpupool::server {

class GpuSeries {
 public:
  explicit GpuSeries(prometheus::Registry* registry) : registry_(registry) {}

  // Of device.gpu() and device.readings().
  void Set(const v1::Device& device);
  // The device tells nothing any more.
  void Clear(const std::string& device);

 private:
  using Family = prometheus::Family<prometheus::Gauge>;
  void SetOne(Family& family, const prometheus::Labels& labels,
              std::optional<double> value);

  prometheus::Registry* const registry_;
  absl::Mutex mutex_;
  std::vector<Family*> families_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, prometheus::Labels> labels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
