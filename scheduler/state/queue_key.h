// Keys of waiting jobs: their order, and the shapes of jobs that fit in the
// same places.
#pragma once

#include <cstdint>
#include <string>

#include "scheduler/state/demands.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// Orders jobs by queue; in a queue by higher priority, then smaller standing,
// then earlier submission.
struct QueueKey {
  uint32_t queue = 0;  // index in Queues (queues.h)
  int priority = 0;
  double standing = 0;
  JobId job;
  friend bool operator<(const QueueKey& a, const QueueKey& b) {
    if (a.queue != b.queue) return a.queue < b.queue;
    if (a.priority != b.priority) return a.priority > b.priority;
    if (a.standing != b.standing) return a.standing < b.standing;
    return a.job < b.job;
  }
  friend bool operator==(const QueueKey&, const QueueKey&) = default;
};

// Needs of a job on the pool. Where one of two jobs of a shape does not fit,
// the other does not fit either.
struct Shape {
  uint32_t queue = 0;
  std::string wanted_device;
  uint32_t devices = 1;
  uint64_t bytes = 0;
  Demands demands = {};
  // With backfill: power of two of the run time that is left; 0 when unknown.
  int length = 0;
  // Set only where tenants are told apart.
  std::string tenant;
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

// Jobs of one group start in the order of their keys. Between groups the order
// may be another.
struct WaitingGroup {
  uint32_t queue = 0;
  std::string tenant;  // with fair shares only
  friend auto operator<=>(const WaitingGroup&, const WaitingGroup&) = default;
};

}  // namespace gpupool::scheduler
