// Cache of the meta worker's plans of training jobs, by all that they depend
// on. A job like an earlier one is admitted without asking the meta worker.
//
// Thread-safety: any thread.
#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::v1 {
class JobSpec;
}  // namespace gpupool::v1
namespace gpupool::worker::v1 {
class PlanReply;
}  // namespace gpupool::worker::v1

namespace gpupool::server {

class PlanCache {
 public:
  using Plan = std::shared_ptr<const worker::v1::PlanReply>;

  // Keeps at most `limit` plans; the least recently used goes first.
  explicit PlanCache(size_t limit = 1024) : limit_(limit) {}

  // Returns the key of everything that a plan depends on: the dataset and the
  // validation set (0: none), whose ids are never reused, and the spec without
  // its names, its seed and learning rate, and the fields about when and how
  // often it runs.
  static std::string KeyOf(const v1::JobSpec& spec, uint64_t dataset_id,
                           uint64_t validation_id = 0);

  // Returns null when there is none.
  Plan Find(const std::string& key);
  void Add(const std::string& key, Plan plan);
  // Drops all plans. Another meta worker may plan otherwise, since it may have
  // found a GPU, or none.
  void Clear();

 private:
  using Entries = std::list<std::pair<std::string, Plan>>;

  const size_t limit_;
  absl::Mutex mutex_;
  Entries entries_ ABSL_GUARDED_BY(mutex_);  // most recently used first
  absl::flat_hash_map<std::string, Entries::iterator> index_
      ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
