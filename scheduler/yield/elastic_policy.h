// Decides when elastic jobs (Job::device_counts) change their number of
// devices: pure functions of the state.
//
//   * An elastic job starts with its largest number of devices that leaves as
//     many to other waiting jobs as those need at least.
//   * A running one takes more devices when nobody waits and they have been
//     free for QueuePolicy::grow_after, and at least for kGrowAfterRestarts
//     times the cost of a restart. It must also be worth it, unless nothing is
//     known of its run time: with n of m devices a remaining time r becomes r n
//     / m, which must save more than the restart costs.
//   * One with more devices than its least gives some back to a job that waits
//     and would start with them, unless that job's priority is lower. This
//     happens with every order of the queue.
//
// In both directions the job checkpoints, goes back to the queue and starts
// with another number of ranks. It does neither before its minimum run.
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

// Returns where to start a queued job that could start on the devices `least`:
// those, or more where more are free for it. Jobs may not use the devices in
// `held`.
std::vector<DeviceId> WidestPlace(const State& state, const Job& job,
                                  std::vector<DeviceId> least,
                                  const absl::btree_set<DeviceId>& held);

// Returns with how many devices a live elastic job could go on, if that is more
// than it has.
std::optional<uint32_t> CouldGrowTo(const State& state, const Job& job,
                                    const absl::btree_set<DeviceId>& held);

// Returns when a job that could grow since Job::may_grow_since does so.
absl::Time GrowTime(const State& state, const Job& job);

// Returns room for a waiting job, made by elastic jobs that give back what
// exceeds their least.
std::optional<Room> RoomByShrinking(const State& state, const Job& job,
                                    const absl::btree_set<DeviceId>& held,
                                    absl::Time now);

// Returns whether the running job may give back devices to the waiting one now.
bool MayShrinkFor(const Job& running, const Job& job, const State& state,
                  absl::Time now);

// Returns how many devices a running job may give back.
uint32_t SpareDevices(const Job& job);

}  // namespace gpupool::scheduler
