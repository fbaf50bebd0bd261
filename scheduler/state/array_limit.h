// How many tasks of an array may run at once: the rule, and the tasks that it
// is about.
//
// An array is a number of jobs, its tasks, that were submitted together. So
// many of them as the limit allows are live or in the queue; the others stand
// aside of it and are looked at by no decision. When one gives its place up (it
// ends, backs off or is held) the first of those that stand aside takes it. One
// that is told to stop and waits to resume keeps its place.
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
  uint32_t at_once = 0;             // 0: no limit
  absl::btree_set<JobId> unended;   // all that have not ended
  absl::btree_set<JobId> live;      // see IsLive
  absl::btree_set<JobId> queued;    // in the queue
  absl::btree_set<JobId> standing;  // QUEUED, aside for the limit alone

  // One more may be put in the queue.
  bool HasPlace() const;
  // One more may be live, though one in the queue may have to stand aside.
  bool MayAddLive() const;
  // The task that is to take a place that is free now, and the one that must
  // give one up since others have become live. Nothing when all is right.
  std::optional<JobId> ToQueue() const;
  std::optional<JobId> ToStandAside() const;
};

// Why a task of array `id` stands aside, for people: "array 7 runs at most 4
// tasks at once (max_at_once): 3 run and 1 is next".
std::string AtOnceText(JobId id, const ArrayTasks& tasks);

}  // namespace gpupool::scheduler
