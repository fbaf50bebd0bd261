// Private to server/metrics: readings of GPUs with the names, units and labels
// of NVIDIA's DCGM exporter, so that dashboards and alerts made for it work
// here. Families exist from the first GPU on. A missing reading has no series.
//
// Thread-safety: any thread. The registry must outlive it.
#pragma once

#include <prometheus/labels.h>
#include <prometheus/registry.h>

#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/v1/device.pb.h"
#include "server/metrics/gpu_gauge.h"

namespace gpupool::server {

class GpuSeries {
 public:
  explicit GpuSeries(prometheus::Registry* registry) : registry_(registry) {}

  // Sets the series from device.gpu() and device.readings().
  void Set(const v1::Device& device);
  // Removes the series of a device that reports nothing any more.
  void Clear(const std::string& device);

 private:
  prometheus::Registry* const registry_;
  absl::Mutex mutex_;
  std::vector<GaugeFamily*> families_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, prometheus::Labels> labels_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
