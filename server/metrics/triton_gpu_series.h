// Private to server/metrics: readings of GPUs with the names, units and label
// of Triton Inference Server's metrics. Families exist from the first GPU on. A
// missing reading has no series.
//
// Thread-safety: any thread. The registry must outlive it.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/registry.h>

#include <map>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/v1/device.pb.h"
#include "server/metrics/gpu_gauge.h"

namespace gpupool::server {

class TritonGpuSeries {
 public:
  explicit TritonGpuSeries(prometheus::Registry* registry)
      : registry_(registry) {}

  // Sets the series from device.gpu() and device.readings().
  void Set(const v1::Device& device);
  // Removes the series of a device that reports nothing any more.
  void Clear(const std::string& device);

 private:
  void Register() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void SetEnergy(const v1::Device& device)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(const std::string& uuid) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  prometheus::Registry* const registry_;
  absl::Mutex mutex_;
  std::vector<GaugeFamily*> gauges_ ABSL_GUARDED_BY(mutex_);
  prometheus::Family<prometheus::Counter>* energy_ ABSL_GUARDED_BY(mutex_) =
      nullptr;
  std::map<std::string, std::string> uuids_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
