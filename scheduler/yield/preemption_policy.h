// Who must make room for a job that waits: a pure function of the state.
//
// In a queue whose order says so a running job gives way to one of higher
// priority, and to one of the same priority whose standing is smaller by the
// queue's hysteresis, once it has had its minimum run. Where a queue preempts,
// so do all jobs of queues of lower rank. Whatever the order, tenants get the
// devices back that they are guaranteed: jobs that others run beyond their own
// guarantees give way, the ones that started last first to count as such,
// unless their queue is of higher rank. Where devices that are free or would be
// given up are scattered over machines, running jobs that do not give way may
// be moved: they checkpoint, make room and go on elsewhere. That is tried last,
// and only with jobs that have run for kMoveAfterRestarts times what a restart
// costs.
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
  std::vector<DeviceId> devices;  // to reserve for it, rising
  std::vector<Stop> stops;
};

// Looks for room for one waiting job after the other. Refers to the running
// jobs.
class RoomFinder {
 public:
  explicit RoomFinder(const RunningJobs& jobs);

  // Of the running jobs some were told to stop, or devices were reserved.
  void NoteChanges();

  // Room for the job, for which nothing is reserved: of all machines the one
  // where the jobs that give way are the furthest behind, then where the fewest
  // devices change hands. Nothing when no room can be made.
  std::optional<Room> RoomFor(const Job& job);

 private:
  const RunningJobs& jobs_;
  struct OfQueue {
    RoomBound given_way;
    RoomBound reclaimed;
  };
  std::vector<OfQueue> bounds_;  // by queue
};

// True when all that still runs on the devices that are reserved for the job
// has been told to stop, so that it only needs to wait.
bool RoomIsComing(const State& state, const Job& job);

}  // namespace gpupool::scheduler
