// The versions of models that their tenants share, for threads that answer
// inference requests. The control thread keeps it as the rows are on disk.
//
// Thread-safety: any thread. No function blocks for long. Ownership: none.
#pragma once

#include <cstdint>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_set.h"
#include "absl/synchronization/mutex.h"

namespace gpupool::server {

class SharedVersions {
 public:
  // Notes whether the version is shared. One that is gone is not.
  void Set(uint64_t id, bool shared) {
    absl::MutexLock lock(&mutex_);
    if (shared) {
      ids_.insert(id);
    } else {
      ids_.erase(id);
    }
  }

  bool Has(uint64_t id) const {
    absl::ReaderMutexLock lock(&mutex_);
    return ids_.contains(id);
  }

 private:
  mutable absl::Mutex mutex_;
  absl::flat_hash_set<uint64_t> ids_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace gpupool::server
