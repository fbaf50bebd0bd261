// Where the ranks of an attempt on several devices meet: a folder for each
// attempt, ROOT/<job>-<attempt>, which only this user may enter. It is there
// for as long as the attempt is live or is still being stopped somewhere.
//
// Thread-safety: none; the control thread alone.
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
  // Finds what an earlier server left there.
  explicit GroupFolders(std::string root);

  // The attempt's folder, made when it is not there yet. Unavailable when it
  // cannot be.
  absl::StatusOr<std::string> Make(scheduler::AttemptRef attempt);
  // Removes the folders of attempts that are over.
  void RemoveUnneeded(const scheduler::State& state);

 private:
  std::string PathOf(scheduler::AttemptRef attempt) const;

  const std::string root_;
  absl::btree_set<scheduler::AttemptRef> attempts_;  // that have a folder
};

// "7-2", which no other attempt has.
std::string GroupName(scheduler::AttemptRef attempt);

}  // namespace gpupool::server
