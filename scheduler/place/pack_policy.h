// PlacementRule::kPack: a job starts on the machine and the devices where the
// expected fragmentation of the pool grows least, given what jobs usually need
// (fragmentation.h). Between equal machines it takes the one with the fewest
// free bytes on its devices of the kind.
//
// Thread-safety: as State.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/state/state.h"

namespace gpupool::scheduler {

// Returns need.devices devices of one site, or none when `usable` is empty for
// all sites. `usable` has, by site (Device::site), the devices that the need
// may take. It must be empty for a site with too few of them or on a machine
// with too little host room. Cost is linear in devices and, where there is
// room, in typical needs times devices.
std::vector<const Device*> PackOnOneSite(
    const State& state, const Need& need,
    absl::Span<const std::vector<const Device*>> usable);

}  // namespace gpupool::scheduler
