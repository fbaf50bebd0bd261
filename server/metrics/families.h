// Private to server/metrics: every family by name, with help text and buckets.
// The series of devices, versions and queues belong to them.
#pragma once

#include <prometheus/counter.h>
#include <prometheus/gauge.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "server/metrics/gpu_series.h"

namespace gpupool::server {

class VersionMetrics;

// Returns upper bounds of buckets, in the unit of the family's name.
const prometheus::Histogram::BucketBoundaries& StepBounds();
const prometheus::Histogram::BucketBoundaries& CheckpointBounds();
const prometheus::Histogram::BucketBoundaries& RequestBounds();
const prometheus::Histogram::BucketBoundaries& BatchBounds();

// Returns "INVALID_ARGUMENT", the value of label code.
std::string CodeLabel(absl::StatusCode code);

struct MetricFamilies {
  MetricFamilies();
  MetricFamilies(const MetricFamilies&) = delete;
  MetricFamilies& operator=(const MetricFamilies&) = delete;

  struct Steps {
    uint64_t count = 0;
    double seconds = 0;
  };

  const std::shared_ptr<prometheus::Registry> registry =
      std::make_shared<prometheus::Registry>();
  prometheus::Family<prometheus::Gauge>& build_info;
  prometheus::Family<prometheus::Gauge>& jobs;
  prometheus::Family<prometheus::Gauge>& queue_jobs;
  prometheus::Family<prometheus::Gauge>& queue_devices;
  prometheus::Gauge& reserved_devices;
  prometheus::Histogram& queue_wait;
  prometheus::Histogram& prediction_error;
  prometheus::Family<prometheus::Counter>& preemptions;
  prometheus::Family<prometheus::Histogram>& checkpoint_duration;
  prometheus::Histogram& store_commit;
  prometheus::Histogram& decision;
  prometheus::Counter& reconcile_mismatches;
  prometheus::Counter& blamed_jobs;
  prometheus::Gauge& rehearsals_waiting;
  prometheus::Family<prometheus::Counter>& rehearsals;
  prometheus::Family<prometheus::Gauge>& device_memory;
  prometheus::Family<prometheus::Gauge>& device_utilization;
  prometheus::Family<prometheus::Gauge>& device_up;
  prometheus::Family<prometheus::Gauge>& device_quarantined;
  prometheus::Family<prometheus::Gauge>& device_cooling;
  prometheus::Family<prometheus::Gauge>& device_drained;
  prometheus::Family<prometheus::Gauge>& device_faults_in_a_row;
  prometheus::Family<prometheus::Histogram>& training_step;
  prometheus::Family<prometheus::Counter>& worker_restarts;
  prometheus::Family<prometheus::Counter>& worker_hangs;
  prometheus::Family<prometheus::Counter>& device_faults;
  prometheus::Family<prometheus::Counter>& requests;
  prometheus::Family<prometheus::Histogram>& request_duration;
  prometheus::Family<prometheus::Histogram>& batch_size;
  prometheus::Family<prometheus::Counter>& programs_compiled;
  prometheus::Family<prometheus::Counter>& programs_evicted;
  prometheus::Family<prometheus::Gauge>& inference_queue_depth;
  prometheus::Family<prometheus::Gauge>& inference_queue_limit;
  prometheus::Family<prometheus::Gauge>& inference_under_load;
  prometheus::Family<prometheus::Gauge>& queue_depth;
  prometheus::Family<prometheus::Gauge>& queue_limit;

  GpuSeries gpus{registry.get()};

  absl::Mutex mutex;
  std::map<std::string, Steps> steps ABSL_GUARDED_BY(mutex);
  std::map<std::pair<std::string, std::string>, std::weak_ptr<VersionMetrics>>
      versions ABSL_GUARDED_BY(mutex);
};

}  // namespace gpupool::server
