// Callers that want an answer only when versions have reached a state (`wait`
// of PromoteCheckpoint, LoadVersion and UnloadVersion).
//
// Thread-safety: none; control thread only.
#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/status/status.h"
#include "server/control/calls/callback.h"

namespace gpupool::v1 {
class ModelVersion;
}  // namespace gpupool::v1

namespace gpupool::server {

class Ledger;

using VersionCallback = Callback<v1::ModelVersion>;

class VersionWaiters {
 public:
  enum class For {
    kLoaded,    // READY, LOAD_FAILED, or UNLOADED by others
    kUnloaded,  // UNLOADED, or loaded again by others; not UNLOADING any more
  };

  // Answers with the row of the last of `ids` when all have reached the state.
  void Add(For what, std::vector<uint64_t> ids, VersionCallback callback);
  // Answers the callers that wait for one of `changed`, if all their versions
  // are there. A deleted version counts as arrived; if the last one is deleted
  // the answer is NotFound.
  void Check(Ledger& ledger, const absl::btree_set<uint64_t>& changed);
  // Answers all callers with the status.
  void FailAll(const absl::Status& status);

 private:
  struct Waiter {
    For what;
    std::vector<uint64_t> ids;
    VersionCallback callback;
  };
  static bool Arrived(Ledger& ledger, const Waiter& waiter);

  std::list<Waiter> waiters_;
};

}  // namespace gpupool::server
