// Private to Step(): what the handlers of one event share. Each handler group
// lives in its own file (step_jobs.cc, step_plans.cc, step_versions.cc,
// step_workers.cc);
// schedule.cc then starts what fits.
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
// Without looking at limits of time. False when the id is known.
bool AddSubmitted(StepContext& context, const JobSubmitted& event);
void Apply(StepContext& context, const JobSubmitted& event);
void Apply(StepContext& context, const JobCancelRequested& event);
void Apply(StepContext& context, const JobHoldRequested& event);
void Apply(StepContext& context, const JobReleaseRequested& event);
void Apply(StepContext& context, const JobRequeueRequested& event);
void Apply(StepContext& context, const DrainRequested& event);
void Apply(StepContext& context, const AttemptStarted& event);
void Apply(StepContext& context, const ProgressMade& event);
void Apply(StepContext& context, const CheckpointSaved& event);
void Apply(StepContext& context, const AttemptEnded& event);
void Apply(StepContext& context, const TimerFired& event);

// Moves the job, records the change and, unless the new state is live, gives
// its bytes back on all devices.
void MoveJob(StepContext& context, Job& job, JobState to, std::string reason);
// The live attempt is gone without a fault of the job: back off or give up.
void InterruptJob(StepContext& context, Job& job, absl::string_view reason);
// The live attempt is gone because it was told to stop for a drain.
void RequeueJob(StepContext& context, Job& job);
void SucceedJob(StepContext& context, Job& job);
// A report of the attempt. It may have been spooled by a worker that died
// since, so it does not end a doubt; only being listed does.
void NoteRunning(StepContext& context, Job& job);

// ----------------------------------------------------------- step_limits.cc
// Jobs whose time has come: those that wait fail, the others are told to stop.
void EnforceLimits(StepContext& context);
// A job that was told to stop because of a limit has stopped.
void FailAtLimit(StepContext& context, Job& job);
// What jobs that ended in this step mean for those that wait for them.
void SettleDependents(StepContext& context);
// Asks for the timer of the next limit.
void WatchLimits(StepContext& context);

// ----------------------------------------------------------- step_faults.cc
void EndCooldowns(StepContext& context);
// A fault that is told now is the one that is known: the attempt says so, and
// then its worker ends. Also when that attempt's job was to blame meanwhile.
bool IsSameFault(const Device& device, absl::Time now);
// The device failed, unless that is known.
void NoteFault(StepContext& context, Device& device, const std::string& text);
// The device failed under the live attempt, which is spared: it is not a
// failure of the job. `suspected`: the job may have caused it.
void SpareJob(StepContext& context, Job& job, DeviceId device, bool suspected);
// The spared attempt is gone: back off, or fail when the job is to blame.
void RetryOrBlame(StepContext& context, Job& job, absl::string_view reason);
// Neither faults nor a cool-down any more.
void Forgive(StepContext& context, Device& device);
// An attempt ended well there.
void NoteSuccess(StepContext& context, Device& device);

// ----------------------------------------------------------- step_drains.cc
void Apply(StepContext& context, const DeviceDrainSet& event);
// Tells jobs to leave drained devices.
void LeaveDrained(StepContext& context);

// ----------------------------------------------------- step_reservations.cc
void Apply(StepContext& context, const ReservationMade& event);
void Apply(StepContext& context, const ReservationCancelled& event);
// Those that have ended since are gone.
void EndReservations(StepContext& context);
// Where one has begun jobs of others are told to go, and keep nothing there.
void EnforceReservations(StepContext& context);
// Asks for the timer of the next beginning or end.
void WatchReservations(StepContext& context);

// ------------------------------------------------------------ step_ranks.cc
// Tells the live attempt to checkpoint and to stop, unless it was already.
void AskToStop(StepContext& context, Job& job, StopReason reason);
// Tells the live attempt to checkpoint and to make room, and notes for whom.
void Preempt(StepContext& context, Job& job, const Preemption& preemption);
// Tells all ranks that have not ended.
void StopRanks(StepContext& context, const Job& job, StopReason reason);
// The live attempt's rank on the device has ended, or is lost (kInterrupted).
// The attempt ends with its last rank; before that one that cannot go on takes
// the others with it.
void EndRank(StepContext& context, Job& job, DeviceId device,
             const AttemptEnded& event);
// A wake-up of a live job: workers never showed its missing ranks.
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
void Apply(StepContext& context, const VersionUnloaded& event);
void Apply(StepContext& context, const VersionDrained& event);
void Apply(StepContext& context, const ServingLoadChanged& event);

// The version answers on its device; replaced ones begin to drain.
void VersionIsReady(StepContext& context, Version& version);
// Back to LOADING without a place; it may be placed again after `delay`.
void VersionLostItsPlace(StepContext& context, Version& version,
                         absl::Duration delay);
// Its bytes are back: UNLOADED, or LOADING when it is wanted again.
void VersionIsGone(StepContext& context, Version& version);

// ------------------------------------------------------------ step_plans.cc
void Apply(StepContext& context, const JobPlanned& event);
void Apply(StepContext& context, const VersionPlanned& event);
void Apply(StepContext& context, const StartsHeld& event);

// ---------------------------------------------------------- step_serving.cc
// Training that a served model needs the place of is told to stop; `held` gets
// the devices where none may start.
void YieldToServing(StepContext& context, absl::btree_set<DeviceId>& held);
// Tells the jobs to checkpoint and to make room for the version.
void MakeRoomFor(StepContext& context, const Version& version,
                 const std::vector<JobId>& jobs);
// A version waits for bytes: asks for the timer of the next job's minimum run.
void WatchMinRuns(StepContext& context);

// ---------------------------------------------------------- step_elastic.cc
// Elastic jobs give devices back to jobs that wait, or get more while nobody
// does; none that are in `held`.
void ShrinkElastic(StepContext& context, const absl::btree_set<DeviceId>& held);
void GrowElastic(StepContext& context, const absl::btree_set<DeviceId>& held);

// -------------------------------------------------------------- schedule.cc
// Starts and loads what fits now.
void Schedule(StepContext& context);

}  // namespace gpupool::scheduler
