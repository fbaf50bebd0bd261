// The waiting jobs that may start, in order, and the first job of each shape:
// where that one does not fit, no other job of its shape does.
//
// Thread-safety: a value; as any.
#pragma once

#include <map>
#include <utility>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "scheduler/state/queue_key.h"

namespace gpupool::scheduler {

class WaitingJobs {
 public:
  using Keys = absl::btree_set<QueueKey>;
  // A shape and its jobs, at least one.
  using OfShape = std::pair<const Shape, Keys>;
  // Shapes by their first jobs. A pointer is valid until its shape has no jobs
  // left.
  using Heads = absl::btree_map<QueueKey, const OfShape*>;

  WaitingJobs() = default;
  WaitingJobs(const WaitingJobs& other);
  WaitingJobs(WaitingJobs&&) noexcept = default;
  WaitingJobs& operator=(WaitingJobs&&) noexcept = default;

  void Add(const QueueKey& key, const Shape& shape, const WaitingGroup& group);
  // Removes a job; the arguments must be those of Add.
  void Remove(const QueueKey& key, const Shape& shape,
              const WaitingGroup& group);

  const Keys& all() const { return all_; }
  const std::map<Shape, Keys>& shapes() const { return shapes_; }
  // Returns the shapes by group. No group is empty.
  const absl::btree_map<WaitingGroup, Heads>& heads() const { return heads_; }

 private:
  Keys all_;
  std::map<Shape, Keys> shapes_;
  absl::btree_map<WaitingGroup, Heads> heads_;
};

}  // namespace gpupool::scheduler
