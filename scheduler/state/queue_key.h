// Where a job stands in the queue, and which jobs fit where one does.
#pragma once

#include <cstdint>
#include <string>

#include "scheduler/state/demands.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// Queue by queue; in a queue higher priority first, then smaller standing, then
// first submitted.
struct QueueKey {
  uint32_t queue = 0;  // of Queues (queues.h)
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

// What a job needs of the pool. Where one of two jobs of a shape does not fit,
// the other does not either.
struct Shape {
  uint32_t queue = 0;
  std::string wanted_device;
  uint32_t devices = 1;
  uint64_t bytes = 0;
  Demands demands = {};
  // With backfill: of the time that it still needs, by powers of two; 0 when
  // that is not known.
  int length = 0;
  // Where tenants are told apart.
  std::string tenant;
  friend auto operator<=>(const Shape&, const Shape&) = default;
};

// Jobs of one group go one after the other in the order of their keys; of two
// groups the order may be another.
struct WaitingGroup {
  uint32_t queue = 0;
  std::string tenant;  // with fair shares
  friend auto operator<=>(const WaitingGroup&, const WaitingGroup&) = default;
};

}  // namespace gpupool::scheduler
