// Decides which model versions are loaded where, and which ones they replace:
// pure functions of the state.
//
//   * Wanted versions without a place go before jobs, since people wait for
//     their answers. While one does not fit, a device is held for it: one where
//     training makes room for it, if there is one.
//   * A version that becomes ready for the first time replaces the older ones
//     of its model, which drain and unload. A version that was loaded again on
//     request, or came back after a lost worker, replaces nothing.
//
// Thread-safety: as State.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"
#include "scheduler/yield/serving_policy.h"

namespace gpupool::scheduler {

struct VersionMove {
  VersionId version;
  Placement placement;  // fit tells: load now, wait or give up
  // While it waits: the place where training makes room (serving_policy.h).
  std::optional<VersionRoom> room;
};

struct VersionMoves {
  std::vector<VersionMove> moves;   // in order of request
  absl::btree_set<DeviceId> holds;  // kept free for versions that wait
};

// Returns a move for every version that is LOADING without a place and not
// suspected, and whose retry time has come. Placements are for the present
// state: after carrying out one with Fit::kNow, call again.
VersionMoves ChooseMoves(const State& state, absl::Time now);

// Returns the versions of the same model that `ready` replaces: wanted ones
// with a lower number that were asked for earlier.
std::vector<VersionId> ReplacedBy(const State& state, const Version& ready);

// Returns "waits for 1.2 GiB on a device; the largest free is 300.0 MiB; unload
// another version or wait for a job to end", or "waits for 1.2 GiB on cpu:0,
// where training makes room".
std::string VersionWaitText(const State& state, const VersionMove& move);

}  // namespace gpupool::scheduler
