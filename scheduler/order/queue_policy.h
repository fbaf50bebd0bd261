// Who starts next: pure functions of the state.
//
// Queues of higher rank come first (queues.h). In each the order is priority,
// then standing (order_policy.h), then submission. A job that does not fit now
// lets later ones pass, so that devices do not idle; after kMaxPasses of them
// as many devices as it needs are held for it, so that it cannot starve.
// Nothing is taken of them before all are free enough, and earlier jobs go on
// using them: two that wait for several devices never wait for each other. A
// job does not start while an earlier attempt of it is still being stopped
// somewhere.
//
// Thread-safety: as State.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_set.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// Jobs that may start ahead of one that waits before devices are held for it.
inline constexpr uint32_t kMaxPasses = 16;
// Shapes looked at in one decision; bounds the cost of a step when the queue is
// long and of many kinds. Those behind wait for their turn to be looked at.
inline constexpr size_t kMaxScan = 256;

struct NextStart {
  JobId job;
  std::vector<DeviceId> devices;  // by rank
  // Earlier jobs that were passed and still wait. Nobody counts those to which
  // the one that starts would have to give way, since they do not starve.
  std::vector<JobId> passed;
};

// Of a queue of higher rank, or of higher priority in the same queue.
bool StandsAbove(const State& state, const Job& first, const Job& second);

// Its tenant or its queue may not use so many devices more.
bool IsAtLimit(const State& state, const Job& job);

// The queued jobs that may start next, in order: those for which devices are
// reserved, and the first of each shape of the others, which fit nowhere where
// it does not. Jobs of which an earlier attempt is still being stopped are left
// out.
std::vector<const Job*> Candidates(const State& state);
// Those of one queue. Of so many as wait each has an equal part of kMaxScan.
std::vector<const Job*> CandidatesOf(const State& state, uint32_t queue);

// What one queue would start, and what it asks of those of lower rank.
struct QueueChoice {
  std::optional<NextStart> start;
  // When it starts nothing: its jobs that wait and could run if the pool were
  // empty, and what they keep free for themselves.
  std::vector<JobId> waiting;
  absl::btree_set<DeviceId> kept;
};

// The first queued job that fits now, or nothing. `held` are devices that are
// kept free for a version; devices that earlier jobs hold are respected too.
std::optional<NextStart> ChooseNext(const State& state,
                                    const absl::btree_set<DeviceId>& held,
                                    absl::Time now);

}  // namespace gpupool::scheduler
