// The limit on the tasks of an array that run at once.
//
// An array is a set of jobs, its tasks, that were submitted together. As many
// tasks as the limit allows are live or in the queue. The others wait outside
// the queue, and no decision looks at them. When a task gives its place up (it
// ends, backs off or is held), the first of the waiting ones takes it. A task
// that is told to stop and will resume keeps its place.
//
// Thread-safety: a value; as any.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/btree_set.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

struct ArrayTasks {
  uint32_t at_once = 0;            // 0: no limit
  absl::btree_set<JobId> unended;  // all tasks that have not ended
  absl::btree_set<JobId> live;     // as IsLive says
  absl::btree_set<JobId> queued;   // in the queue
  // QUEUED, outside the queue by the limit only.
  absl::btree_set<JobId> standing;

  // Returns whether one more task may enter the queue.
  bool HasPlace() const;
  // Returns whether one more task may become live, even if a queued one must
  // then leave the queue.
  bool MayAddLive() const;
  // Returns the task that takes a free place (ToQueue), or the queued task that
  // must give its place up because others have become live (ToStandAside).
  // Returns nothing when all is in order.
  std::optional<JobId> ToQueue() const;
  std::optional<JobId> ToStandAside() const;
};

// Returns why a task of array `id` waits outside the queue: "array 7 runs at
// most 4 tasks at once (max_at_once): 3 run and 1 is next".
std::string AtOnceText(JobId id, const ArrayTasks& tasks);

}  // namespace gpupool::scheduler
