// Private to Step(): what the handlers of one event share. Each group of
// handlers has its own file, named below. schedule.cc then starts what fits.
//
// Thread-safety: lives on the stack of one Step().
#pragma once

#include <string>
#include <utility>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/state/state_editor.h"
#include "scheduler/step/step.h"

namespace gpupool::scheduler {

struct StepContext {
  StepContext(State& state_in, absl::Time now_in)
      : state(state_in), edit(state_in), now(now_in) {}

  const State& state;
  StateEditor edit;
  absl::Time now;
  StepResult result;

  void Act(Action action) { result.actions.push_back(std::move(action)); }
  void Stale() { result.stale = true; }
  void Touch(const Job& job) { result.changed_jobs.insert(job.id); }
  void Touch(const Version& version) {
    result.changed_versions.insert(version.id);
  }
  void Touch(DeviceId device) { result.changed_devices.insert(device); }
};

// ----------------------------------------------------------- step_arrays.cc
void Apply(StepContext& context, const ArraySubmitted& event);
void Apply(StepContext& context, const ArrayRequested& event);

// ------------------------------------------------------------- step_jobs.cc
// Adds a submitted job, without checking limits of time. Returns false when the
// id is known.
bool AddSubmitted(StepContext& context, const JobSubmitted& event);
void Apply(StepContext& context, const JobSubmitted& event);
void Apply(StepContext& context, const JobCancelRequested& event);
void Apply(StepContext& context, const JobHoldRequested& event);
void Apply(StepContext& context, const JobReleaseRequested& event);
void Apply(StepContext& context, const JobRequeueRequested& event);
void Apply(StepContext& context, const JobRehearsed& event);
void Apply(StepContext& context, const DrainRequested& event);
void Apply(StepContext& context, const AttemptStarted& event);
void Apply(StepContext& context, const ProgressMade& event);
void Apply(StepContext& context, const CheckpointSaved& event);
void Apply(StepContext& context, const AttemptEnded& event);
void Apply(StepContext& context, const TimerFired& event);

// Moves the job and records the change. Gives its bytes back on all devices
// unless the new state is live.
void MoveJob(StepContext& context, Job& job, JobState to, std::string reason);
// Ends a live attempt that was lost without a fault of the job: backs off or
// gives up.
void InterruptJob(StepContext& context, Job& job, absl::string_view reason);
// Ends a live attempt that was told to stop, and queues the job again.
void RequeueJob(StepContext& context, Job& job);
void SucceedJob(StepContext& context, Job& job);
// Notes a report of the attempt. It may have been spooled by a worker that died
// since, so that it does not explain a missing rank; only the worker's list
// does.
void NoteRunning(StepContext& context, Job& job);

// ----------------------------------------------------------- step_limits.cc
// Enforces the limits of jobs whose time has come: waiting jobs fail, live ones
// are told to stop.
void EnforceLimits(StepContext& context);
// Fails a job whose attempt was told to stop at a limit and has stopped.
void FailAtLimit(StepContext& context, Job& job);
// Tells the dependents of the jobs that ended in this step.
void SettleDependents(StepContext& context);
// Asks for the timer of the next limit.
void WatchLimits(StepContext& context);

// ----------------------------------------------------------- step_faults.cc
void EndCooldowns(StepContext& context);
// Returns whether a fault that is reported now is already known: first the
// attempt reports it, then its worker ends. Also true after that attempt's job
// was blamed.
bool IsSameFault(const Device& device, absl::Time now);
// Counts a fault of the device and cools it down, unless the fault is known.
void NoteFault(StepContext& context, Device& device, const std::string& text);
// Spares the live attempt under which the device failed: the fault is not
// charged to the job. `suspected`: the job may have caused it.
void SpareJob(StepContext& context, Job& job, DeviceId device, bool suspected);
// Ends a spared attempt: backs off, or fails the job when it is to blame.
void RetryOrBlame(StepContext& context, Job& job, absl::string_view reason);
// Clears the device's faults and its cool-down.
void Forgive(StepContext& context, Device& device);
// Forgives the device because an attempt ended well there.
void NoteSuccess(StepContext& context, Device& device);

// ----------------------------------------------------------- step_drains.cc
void Apply(StepContext& context, const DeviceDrainSet& event);
// Tells jobs to leave drained devices.
void LeaveDrained(StepContext& context);

// ----------------------------------------------------- step_reservations.cc
void Apply(StepContext& context, const ReservationMade& event);
void Apply(StepContext& context, const ReservationCancelled& event);
// Removes the reservations that have ended.
void EndReservations(StepContext& context);
// Tells jobs of other tenants to leave devices whose reservation has begun, and
// takes back devices there that are held or reserved for them.
void EnforceReservations(StepContext& context);
// Asks for the timer of the next begin or end of a reservation.
void WatchReservations(StepContext& context);

// ------------------------------------------------------------ step_ranks.cc
// Tells the live attempt to checkpoint and to stop, unless that was done.
void AskToStop(StepContext& context, Job& job, StopReason reason);
// Tells the live attempt to checkpoint and to make room. Notes for whom.
void Preempt(StepContext& context, Job& job, const Preemption& preemption);
// Tells all ranks that have not ended to stop.
void StopRanks(StepContext& context, const Job& job, StopReason reason);
// Ends the live attempt's rank on the device; kInterrupted when it is lost. The
// attempt ends with its last rank. A rank that cannot go on stops the others.
void EndRank(StepContext& context, Job& job, DeviceId device,
             const AttemptEnded& event);
// Gives up the missing ranks of a live job when its wake-up comes: no worker
// has shown them.
void GiveUpMissing(StepContext& context, Job& job);

// ---------------------------------------------------------- step_workers.cc
void Apply(StepContext& context, const WorkerReady& event);
void Apply(StepContext& context, const WorkerLost& event);
void Apply(StepContext& context, const MemoryFractionSet& event);

// --------------------------------------------------------- step_versions.cc
void Apply(StepContext& context, const VersionCreated& event);
void Apply(StepContext& context, const VersionLoadRequested& event);
void Apply(StepContext& context, const VersionUnloadRequested& event);
void Apply(StepContext& context, const VersionDeleted& event);
void Apply(StepContext& context, const VersionLoaded& event);
void Apply(StepContext& context, const VersionLoadFailed& event);
void Apply(StepContext& context, const VersionRehearsed& event);
void Apply(StepContext& context, const VersionUnloaded& event);
void Apply(StepContext& context, const VersionDrained& event);
void Apply(StepContext& context, const ServingLoadChanged& event);

// Serves a version that is on its device, and begins to drain the versions that
// it replaces.
void VersionIsReady(StepContext& context, Version& version);
// Moves the version back to LOADING without a place. It may be placed again
// after `delay`.
void VersionLostItsPlace(StepContext& context, Version& version,
                         absl::Duration delay);
// Moves a version without a place to LOAD_FAILED, where it stays until somebody
// asks to load it. Nothing waits for it any longer.
void FailLoad(StepContext& context, Version& version, std::string error);
// Notes that a worker ended under the version's work. It is rehearsed before it
// is placed again, and given up when that has happened too often.
void SuspectVersion(StepContext& context, Version& version,
                    const std::string& reason);
// Asks for the rehearsals of suspected versions.
void RehearseSuspects(StepContext& context);
// Ends the unloading of a version, whose bytes are back: UNLOADED, or LOADING
// when it is wanted again.
void VersionIsGone(StepContext& context, Version& version);

// ------------------------------------------------------------ step_plans.cc
void Apply(StepContext& context, const JobPlanned& event);
void Apply(StepContext& context, const VersionPlanned& event);
void Apply(StepContext& context, const StartsHeld& event);

// ---------------------------------------------------------- step_serving.cc
// Stops training whose place a served model needs. Adds to `held` the devices
// where no training may start.
void YieldToServing(StepContext& context, absl::btree_set<DeviceId>& held);
// Tells the jobs to checkpoint and to make room for the version.
void MakeRoomFor(StepContext& context, const Version& version,
                 const std::vector<JobId>& jobs);
// Asks for the timer of the next end of a minimum run while a version waits for
// bytes.
void WatchMinRuns(StepContext& context);

// ---------------------------------------------------------- step_elastic.cc
// ShrinkElastic lets elastic jobs give devices back to waiting jobs.
// GrowElastic gives them more while nobody waits. Neither uses the devices in
// `held`.
void ShrinkElastic(StepContext& context, const absl::btree_set<DeviceId>& held);
void GrowElastic(StepContext& context, const absl::btree_set<DeviceId>& held);

// -------------------------------------------------------------- schedule.cc
// Starts and loads what fits now.
void Schedule(StepContext& context);

}  // namespace gpupool::scheduler
