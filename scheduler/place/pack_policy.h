// PlacementRule::kPack: a job starts on the machine, and there on the devices,
// where the expected fragmentation of the pool grows least, given what jobs
// usually need (fragmentation.h). Of machines where it grows by as much, the
// one with the least free bytes on its devices of the kind.
//
// Thread-safety: as State.
#pragma once

#include <vector>

#include "absl/types/span.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/state/state.h"

namespace gpupool::scheduler {

// `usable`: by site (Device::site), the devices there that may be taken for the
// need; none of a site that has not enough of them, or whose machine has not
// enough beside them. Returns need.devices devices of one site, or none when
// all are empty. Cost: linear in devices and, where there is room, in typical
// needs times devices.
std::vector<const Device*> PackOnOneSite(
    const State& state, const Need& need,
    absl::Span<const std::vector<const Device*>> usable);

}  // namespace gpupool::scheduler
