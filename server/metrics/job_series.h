// Private to server/metrics: the series of running jobs, in the families of
// families.inc with the labels "job_id,tenant". A number that a job does not
// have, such as the accuracy of a regression, has no series.
//
// At most kMostJobsWithSeries jobs have series at a time. Jobs beyond are
// counted by a gauge, and get series when one of the others ends.
//
// Thread-safety: any thread. The families must outlive it.
#pragma once

#include <prometheus/gauge.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gpupool/v1/job.pb.h"

namespace gpupool::server {

struct MetricFamilies;

inline constexpr size_t kMostJobsWithSeries = 256;

class JobSeries {
 public:
  explicit JobSeries(MetricFamilies* families);

  // Sets the series of a job that is RUNNING. Removes those of any other job.
  void Set(const v1::Job& job);

 private:
  // By the rows of the table in job_series.cc; null where there is no series.
  using Gauges = std::vector<prometheus::Gauge*>;

  // Returns the series of the job, or null if too many others have some.
  Gauges* Find(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Remove(uint64_t id) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  MetricFamilies* const families_;
  absl::Mutex mutex_;
  std::map<uint64_t, Gauges> jobs_ ABSL_GUARDED_BY(mutex_);
  // Running jobs without series.
  std::set<uint64_t> others_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
