// Jobs that can run with several numbers of devices (Job::device_counts): pure
// functions of the state.
//
//   * One starts with the most of its numbers that leaves others that wait as
//     many devices as they need at least.
//   * A running one takes more devices when nobody waits and they have been
//     free for QueuePolicy::grow_after, at least for kGrowAfterRestarts times
//     what a restart costs; and only when it is known to need long enough, or
//     nothing is known: with n of m devices a rest of r takes r n / m, which
//     must save more than the restart costs.
//   * One that has more than it needs at least gives devices back to a job that
//     waits and would start with them, unless that job's priority is lower. It
//     is the only way in which a job gives way with every order.
//
// Both ways the job checkpoints, goes back to the queue and starts with another
// number of ranks. Before its minimum run neither happens.
//
// Thread-safety: as State.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"
#include "scheduler/yield/preemption_policy.h"

namespace gpupool::scheduler {

inline constexpr int kGrowAfterRestarts = 10;

// Where to start a queued job that can start on the devices `least`, which it
// gets unless there are more for it. `held`: not for jobs.
std::vector<DeviceId> WidestPlace(const State& state, const Job& job,
                                  std::vector<DeviceId> least,
                                  const absl::btree_set<DeviceId>& held);

// With how many devices a live elastic job could go on, when that are more than
// it has.
std::optional<uint32_t> CouldGrowTo(const State& state, const Job& job,
                                    const absl::btree_set<DeviceId>& held);

// When a job that could grow since Job::may_grow_since does so.
absl::Time GrowTime(const State& state, const Job& job);

// Room for a job that waits, made by others that give back what they have
// beyond their least.
std::optional<Room> RoomByShrinking(const State& state, const Job& job,
                                    const absl::btree_set<DeviceId>& held,
                                    absl::Time now);

// Devices that a running job may give back.
uint32_t SpareDevices(const Job& job);

}  // namespace gpupool::scheduler
