// Runs after every event: loads the versions and starts the jobs that fit now.
// See Schedule() for the order of its steps.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/order/queue_policy.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/step/step_context.h"
#include "scheduler/yield/elastic_policy.h"
#include "scheduler/yield/preemption_policy.h"
#include "scheduler/yield/serving_policy.h"
#include "scheduler/yield/version_policy.h"

namespace gpupool::scheduler {
namespace {

void LoadOn(StepContext& context, Version& version, DeviceId device) {
  context.edit.PlaceVersion(version, device);
  version.load = context.edit.NextLoad();
  version.load_sent = true;
  version.error.clear();
  context.Touch(version);
  context.Touch(device);
  context.Act(LoadVersion{version.id, device, version.load, version.bytes});
}

void GiveUp(StepContext& context, Version& version,
            const Placement& placement) {
  FailLoad(context, version,
           NeverFitsText(NeedOf(context.state, version), placement));
}

void KeepWaiting(StepContext& context, Version& version,
                 const VersionMove& move) {
  if (move.room) MakeRoomFor(context, version, move.room->stops);
  WatchMinRuns(context);
  std::string text = VersionWaitText(context.state, move);
  if (version.error == text) return;
  version.error = std::move(text);
  context.Touch(version);
}

// Carries out the first move that places a version or gives it up. Returns true
// when it did, since the other moves are then out of date.
bool CarryOutOne(StepContext& context, const VersionMoves& moves) {
  for (const VersionMove& move : moves.moves) {
    Version& version = *context.edit.FindVersion(move.version);
    switch (move.placement.fit) {
      case Fit::kNow:
        LoadOn(context, version, move.placement.devices.front());
        return true;
      case Fit::kNever:
        GiveUp(context, version, move.placement);
        return true;
      case Fit::kNotNow:
        KeepWaiting(context, version, move);
    }
  }
  return false;
}

absl::btree_set<DeviceId> LoadVersions(StepContext& context) {
  while (true) {
    VersionMoves moves = ChooseMoves(context.state, context.now);
    if (!CarryOutOne(context, moves)) return std::move(moves.holds);
  }
}

// Counts a start ahead of the passed job. At kMaxPasses the job begins to hold
// devices.
void CountPass(StepContext& context, JobId passed) {
  Job& job = *context.edit.FindJob(passed);
  if (++job.passes < kMaxPasses) return;
  // Keep a choice that still makes sense, so that returning bytes add up there.
  const Need need = NeedOf(context.state, job);
  if (!job.held_devices.empty() &&
      AreWorthHolding(context.state, need, job.held_devices)) {
    return;
  }
  job.held_devices = DevicesToHold(context.state, need);
}

std::string PlacedText(const State& state, const std::vector<DeviceId>& ids) {
  return absl::StrCat("placed on ",
                      absl::StrJoin(ids, ", ", [&](std::string* text, auto id) {
                        text->append(state.devices().at(id).name);
                      }));
}

void StartOn(StepContext& context, Job& job,
             const std::vector<DeviceId>& devices) {
  ++job.attempt;
  job.passes = 0;
  context.edit.SetDeviceCount(job, static_cast<uint32_t>(devices.size()));
  Ranks placed;
  for (DeviceId device : devices) placed.push_back({device});
  context.edit.PlaceJob(job, std::move(placed));
  MoveJob(context, job, JobState::kStarting,
          PlacedText(context.state, devices));
  const auto ranks = static_cast<uint32_t>(devices.size());
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    context.Touch(devices[rank]);
    context.Act(
        StartJob{{job.id, job.attempt}, devices[rank], job.bytes, rank, ranks});
  }
}

void CarryOut(StepContext& context, Job& job, const Room& room) {
  for (const Stop& stop : room.stops) {
    Job& other = *context.edit.FindJob(stop.job);
    Preempt(context, other,
            {.job = other.id,
             .gives_way_to = job.id,
             .reason = stop.reason == StopReason::kMoved
                           ? PreemptionReason::kMove
                           : ReasonToGiveWay(context.state, job, other,
                                             context.now)});
  }
  context.edit.Reserve(job, room.devices);
}

// Checks the host room as well, since rooms are found by devices alone. Jobs
// elsewhere on the machines do not stop for this one.
bool HostHoldsAfter(const State& state, const Job& job, const Room& room) {
  std::vector<JobId> stopping;
  for (const Stop& stop : room.stops) stopping.push_back(stop.job);
  return HostsWillHold(state, NeedOf(state, job), room.devices, stopping);
}

// Makes room for one waiting job. Returns true when it told jobs to stop, so
// that all others must be looked at again.
bool MakeRoomOnce(StepContext& context, RoomFinder& finder) {
  for (const Job* first : Candidates(context.state)) {
    if (RoomIsComing(context.state, *first)) continue;
    Job& job = *context.edit.FindJob(first->id);
    if (!job.reserved_devices.empty()) {
      context.edit.Unreserve(job);
      finder.NoteChanges();
    }
    const std::optional<Room> room = finder.RoomFor(job);
    if (room && HostHoldsAfter(context.state, job, *room)) {
      CarryOut(context, job, *room);
      return true;
    }
  }
  return false;
}

void MakeRoom(StepContext& context, const absl::btree_set<DeviceId>& held) {
  RunningJobs running(context.state, context.now, held);
  RoomFinder finder(running);
  while (MakeRoomOnce(context, finder)) {
    running.NoteStops();
    finder.NoteChanges();
  }
}

// Gives up the room of jobs that have come to a limit meanwhile.
void DropRoomAtLimits(StepContext& context) {
  const absl::btree_set<JobId> reserving = context.state.reserving();
  for (JobId id : reserving) {
    Job& job = *context.edit.FindJob(id);
    if (IsAtLimit(context.state, job)) context.edit.Unreserve(job);
  }
}

// Starts the jobs whose room is free. They go before jobs that hold devices,
// even earlier ones: otherwise both would wait for each other.
void StartInRoomMade(StepContext& context) {
  const absl::btree_set<JobId> reserving = context.state.reserving();
  for (JobId id : reserving) {
    Job& job = *context.edit.FindJob(id);
    if (IsAtLimit(context.state, job)) continue;
    if (context.state.StrayDevice(id) != nullptr) continue;
    const std::vector<DeviceId> devices = job.reserved_devices;
    if (!AreFreeFor(context.state, NeedOf(context.state, job), devices))
      continue;
    StartOn(context, job, devices);
  }
}

// Starts jobs until none fits. Each start changes what fits next.
void StartWhatFits(StepContext& context,
                   const absl::btree_set<DeviceId>& held) {
  NextStarts starts(context.state, held, context.now);
  while (true) {
    DropRoomAtLimits(context);
    const auto next = starts.Choose();
    if (!next) return;
    for (JobId passed : next->passed) CountPass(context, passed);
    Job& job = *context.edit.FindJob(next->job);
    StartOn(context, job, WidestPlace(context.state, job, next->devices, held));
  }
}

void RenewStandings(StepContext& context) {
  while (auto id = context.state.JobWithDueStanding(context.now)) {
    context.edit.NoteStandingChange(*context.edit.FindJob(*id), context.now);
  }
}

bool AQueuePreempts(const Queues& queues) {
  for (uint32_t i = 0; i < queues.size(); ++i) {
    if (queues.at(i).queue.preempts) return true;
  }
  return false;
}

// Asks for a timer, since standings rise and minimum runs end as time goes on,
// and then jobs may have to give way without another event.
void WatchStandings(StepContext& context) {
  absl::Time next = context.state.NextStandingChange();
  if (AQueuePreempts(context.state.queues())) {
    next = std::min(next, NextMinRun(context.state, context.now));
  }
  if (context.state.queue().empty() || !context.edit.ArmTimer(next)) return;
  context.Act(SetTimer{next});
}

}  // namespace

void Schedule(StepContext& context) {
  if (context.state.stopping() || context.state.starts_held()) return;
  // The order matters:
  //   1. Versions are placed before jobs, since people wait for answers.
  //   2. Free devices are used before anybody is stopped for room.
  //   3. Elastic jobs shrink before others are preempted, and grow only while
  //      nobody waits.
  //   4. Preemption comes last. What it frees at once is started at once.
  LeaveDrained(context);
  RehearseSuspects(context);
  absl::btree_set<DeviceId> held = LoadVersions(context);
  if (context.state.draining()) return;
  YieldToServing(context, held);
  StartWhatFits(context, held);
  ShrinkElastic(context, held);
  StartInRoomMade(context);
  GrowElastic(context, held);
  if (!context.state.preempts()) return;
  if (context.state.queue().empty()) return;
  RenewStandings(context);
  MakeRoom(context, held);
  StartInRoomMade(context);
  WatchStandings(context);
}

}  // namespace gpupool::scheduler
