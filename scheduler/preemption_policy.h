// Who must make room for a job that waits: a pure function of the state.
//
// A running job gives way to one of higher priority, and to one of the same
// priority whose standing is smaller by the policy's hysteresis, once it has
// had its minimum run. Whatever the order, tenants get the devices back that
// they are guaranteed: jobs that others run beyond their own guarantees give
// way, the ones that started last first to count as such. Where devices that
// are free or would be given up are scattered over machines, running jobs that
// do not give way may be moved: they checkpoint, make room and go on elsewhere.
// That is tried last, and only with jobs that have run for kMoveAfterRestarts
// times what a restart costs.
//
// Thread-safety: as State.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "scheduler/state.h"
#include "scheduler/types.h"

namespace gpupool::scheduler {

inline constexpr int kMoveAfterRestarts = 10;

struct Stop {
  JobId job;
  StopReason reason = StopReason::kPreempted;
};

struct Room {
  std::vector<DeviceId> devices;  // to reserve for it, rising
  std::vector<Stop> stops;
};

// The running jobs as they stand at one moment, for several questions.
class RunningJobs {
 public:
  RunningJobs(const State& state, absl::Time now);

  // Room for the job on devices that are not in `excluded`: of all machines the
  // one where the jobs that give way are the furthest behind, then where the
  // fewest devices change hands. Nothing when no room can be made.
  std::optional<Room> RoomFor(const Job& job,
                              const absl::btree_set<DeviceId>& excluded) const;

 private:
  struct Running {
    const Job* job = nullptr;
    int priority = 0;
    double standing = 0;
    bool can_give_way = false;  // was not told to stop, had its minimum run
    bool may_move = false;
    bool is_borrowed = false;  // beyond what its tenant is guaranteed
    bool stops = false;
  };
  // A device, with what every question asks of it side by side.
  struct Spot {
    const Device* device = nullptr;
    size_t first = 0;  // of its jobs in running_
    uint64_t free_bytes = 0;
    uint32_t site = 0;
    bool ready = false;
    // Of its jobs: one stops, may move, is borrowed; of those that can give way
    // the lowest priority and the largest standing.
    bool stops = false;
    bool may_move = false;
    bool is_borrowed = false;
    int lowest_priority = std::numeric_limits<int>::max();
    double largest_standing = 0;
  };
  class Search;

  absl::Span<const Spot> Spots() const {
    return absl::MakeConstSpan(spots_).first(spots_.size() - 1);
  }
  absl::Span<const Running> On(const Spot& spot) const;
  // Its tenant stays within what it is guaranteed, and others do not.
  bool Reclaims(const Job& job) const;

  const State& state_;
  std::vector<Running> running_;  // device by device
  std::vector<Spot> spots_;       // by id; one more ends the last one's jobs
  int lowest_priority_ = 0;
  double largest_standing_ = 0;
  bool any_borrowed_ = false;
};

// True when all that still runs on the devices that are reserved for the job
// has been told to stop, so that it only needs to wait.
bool RoomIsComing(const State& state, const Job& job);

}  // namespace gpupool::scheduler
