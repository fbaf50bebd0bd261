// Decides who must make room for a waiting job: a pure function of the state.
//
// A running job gives way, once it has had its minimum run,
//   * in a queue whose order preempts: to a job of higher priority, and to one
//     of the same priority whose standing is smaller by the queue's hysteresis
//   * to jobs of a queue that preempts, if its own queue is of lower rank
//   * with every order: to a job within its tenant's guarantee, if it runs
//     beyond its own tenant's guarantee and its queue is not of higher rank;
//     the jobs that went beyond it last give way first
//
// Where the devices for a gang are scattered over machines, running jobs that
// do not give way may be moved: they checkpoint, make room and go on elsewhere.
// That is tried last, and only with jobs that have run for kMoveAfterRestarts
// times the cost of a restart.
//
// Thread-safety: as State.
#pragma once

#include <optional>
#include <vector>

#include "scheduler/state/state.h"
#include "scheduler/state/types.h"
#include "scheduler/yield/room_bound.h"
#include "scheduler/yield/running_jobs.h"

namespace gpupool::scheduler {

struct Stop {
  JobId job;
  StopReason reason = StopReason::kPreempted;
};

struct Room {
  std::vector<DeviceId> devices;  // devices to reserve for the job, rising
  std::vector<Stop> stops;
};

// Finds room for one waiting job after the other. Refers to the running jobs.
class RoomFinder {
 public:
  explicit RoomFinder(const RunningJobs& jobs);

  // Must be called after running jobs were told to stop or devices were
  // reserved.
  void NoteChanges();

  // Returns room for the job, for which nothing may be reserved yet, or nothing
  // when no room can be made. Prefers the machine where the jobs that give way
  // are furthest behind, then the one where the fewest devices change hands.
  std::optional<Room> RoomFor(const Job& job);

 private:
  const RunningJobs& jobs_;
  struct OfQueue {
    RoomBound given_way;
    RoomBound reclaimed;
  };
  std::vector<OfQueue> bounds_;  // by number of the queue
};

// Returns why `other` gives way to `first`, when RunningJobs::GivesWay. Of
// several reasons returns the first in the order in which jobs give way.
PreemptionReason ReasonToGiveWay(const State& state, const Job& first,
                                 const Job& other, absl::Time now);

// Returns true when every job that still runs on the devices reserved for the
// job has been told to stop, so that it only needs to wait.
bool RoomIsComing(const State& state, const Job& job);

}  // namespace gpupool::scheduler
