// The jobs that wait and may start, in order: all of them, and the first of
// each shape, since where that one does not fit no other of its shape does.
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
  // A shape and its jobs, of which there is one at least.
  using OfShape = std::pair<const Shape, Keys>;
  // By the first job of each shape. The pointers hold until that shape has no
  // jobs left.
  using Heads = absl::btree_map<QueueKey, const OfShape*>;

  WaitingJobs() = default;
  WaitingJobs(const WaitingJobs& other);
  WaitingJobs(WaitingJobs&&) noexcept = default;
  WaitingJobs& operator=(WaitingJobs&&) noexcept = default;

  void Add(const QueueKey& key, const Shape& shape, const WaitingGroup& group);
  // As it was added.
  void Remove(const QueueKey& key, const Shape& shape,
              const WaitingGroup& group);

  const Keys& all() const { return all_; }
  const std::map<Shape, Keys>& shapes() const { return shapes_; }
  // By group; none is empty.
  const absl::btree_map<WaitingGroup, Heads>& heads() const { return heads_; }

 private:
  Keys all_;
  std::map<Shape, Keys> shapes_;
  absl::btree_map<WaitingGroup, Heads> heads_;
};

}  // namespace gpupool::scheduler
