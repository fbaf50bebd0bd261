// Folders in which the ranks of an attempt on several devices meet:
// ROOT/<job>-<attempt>, accessible to this user only. A folder exists as long
// as its attempt is live or is still being stopped somewhere.
//
// Thread-safety: none; control thread only.
#pragma once

#include <string>

#include "absl/container/btree_set.h"
#include "absl/status/statusor.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {
class State;
}  // namespace gpupool::scheduler

namespace gpupool::server {

class GroupFolders {
 public:
  // Takes over the folders that an earlier server left there.
  explicit GroupFolders(std::string root);

  // Returns the attempt's folder and makes it if necessary. Unavailable when
  // that fails.
  absl::StatusOr<std::string> Make(scheduler::AttemptRef attempt);
  // Removes the folders of attempts that are over.
  void RemoveUnneeded(const scheduler::State& state);

 private:
  std::string PathOf(scheduler::AttemptRef attempt) const;

  const std::string root_;
  absl::btree_set<scheduler::AttemptRef> attempts_;  // attempts with a folder
};

// Returns "7-2", a name that no other attempt has.
std::string GroupName(scheduler::AttemptRef attempt);

}  // namespace gpupool::server
