// Workers that come and go: reconciles what a worker really holds with what it
// should hold.
#include <algorithm>

#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/step/step_context.h"
#include "scheduler/yield/serving_policy.h"
#include "scheduler/yield/version_policy.h"

namespace gpupool::scheduler {
namespace {

using AttemptSet = absl::btree_set<AttemptRef>;
using VersionSet = absl::btree_set<VersionId>;

// Returns true when the worker kept an attempt alive that was given up as lost,
// and it can go on. It must be the job's last attempt and still fit the device.
// It must have a single rank, since the others of a gang were told to stop. No
// other task may have taken its place in the array.
bool CanTakeBack(const State& state, const Job& job, AttemptRef attempt,
                 const Device& device) {
  const auto array = state.arrays().find(job.array);
  if (array != state.arrays().end() && !array->second.MayAddLive()) {
    return false;
  }
  const bool waits =
      job.state == JobState::kBackingOff || job.state == JobState::kQueued;
  return waits && attempt.number > 0 && job.attempt == attempt.number &&
         job.device_count == 1 && !job.elastic() &&
         NeededOn(NeedOf(state, job), device) <= device.free_bytes();
}

void TakeBack(StepContext& context, Job& job, const Device& device) {
  if (job.failures > 0) --job.failures;
  context.edit.PlaceJob(job, {{device.id}});
  MoveJob(context, job, JobState::kRunning,
          absl::StrCat("the worker of ", device.name, " still runs it"));
}

bool IsMissing(const Rank& rank) { return rank.missing; }

void Confirm(StepContext& context, Job& job, DeviceId device) {
  context.edit.SetMissing(job, device, false);
  if (std::none_of(job.ranks.begin(), job.ranks.end(), IsMissing)) {
    context.edit.SetWakeTime(job, absl::InfiniteFuture());
  }
}

// Confirms the live attempt's rank, and repeats a stop that the worker may not
// have received.
void Adopt(StepContext& context, Job& job, DeviceId device) {
  const AttemptRef attempt{job.id, job.attempt};
  Confirm(context, job, device);
  if (job.state == JobState::kCancelling || job.interruption) {
    context.Act(StopJob{attempt, device, StopReason::kCancelled});
    return;
  }
  NoteRunning(context, job);
  if (job.state == JobState::kRunning) {
    context.edit.StartClock(job, context.now);
  }
  if (context.state.stopping()) {
    job.stop_sent = StopReason::kDrain;
  } else if (job.held && !job.stop_sent) {
    job.stop_sent = StopReason::kHeld;
  }
  if (job.stop_sent) {
    context.Act(StopJob{attempt, device, *job.stop_sent});
  }
}

void ReconcileListed(StepContext& context, Device& device, AttemptRef attempt) {
  Job* job = context.edit.FindJob(attempt.job);
  if (job != nullptr && context.state.RunsOn(attempt, device.id)) {
    Adopt(context, *job, device.id);
    return;
  }
  if (context.state.IsLiveAttempt(attempt) && job->SavesFrom(device.id)) {
    return Confirm(context, *job, device.id);  // its end is on its way
  }
  if (job != nullptr && CanTakeBack(context.state, *job, attempt, device)) {
    TakeBack(context, *job, device);
    Adopt(context, *job, device.id);
    return;
  }
  context.edit.AddStray(device, attempt,
                        job == nullptr ? 0 : BytesOn(*job, device));
  context.Act(StopJob{attempt, device.id, StopReason::kCancelled});
}

// Returns the jobs with a rank there that runs or saves.
std::vector<JobId> JobsOf(const State& state, const Device& device) {
  std::vector<JobId> jobs(device.jobs.begin(), device.jobs.end());
  for (JobId id : state.saving()) {
    if (state.jobs().at(id).SavesFrom(device.id)) jobs.push_back(id);
  }
  return jobs;
}

// Marks attempts as missing that should be there but are not listed. They may
// have ended while nobody listened; their reports come in a moment.
void DoubtUnlisted(StepContext& context, const Device& device,
                   const AttemptSet& listed) {
  for (JobId id : JobsOf(context.state, device)) {
    Job& job = *context.edit.FindJob(id);
    if (listed.contains({id, job.attempt})) continue;
    const absl::Time until = context.now + kMissingAttemptGrace;
    context.edit.SetMissing(job, device.id, true);
    context.edit.SetWakeTime(job, until);
    context.Act(SetTimer{until});
  }
}

void ReconcileListed(StepContext& context, Device& device, VersionId id) {
  Version* version = context.edit.FindVersion(id);
  if (version != nullptr && version->state == VersionState::kLoading &&
      !version->device && version->bytes <= device.free_bytes() &&
      DeviceMatches(device, NeedOf(context.state, *version))) {
    context.edit.PlaceVersion(*version, device.id);
  }
  if (version == nullptr || version->device != device.id) {
    context.edit.AddStray(device, id, version == nullptr ? 0 : version->bytes);
    context.Act(UnloadVersion{id, device.id});
  } else if (version->state == VersionState::kUnloading) {
    version->load_sent = false;
    context.Act(UnloadVersion{id, device.id});
  } else {
    VersionIsReady(context, *version);
  }
}

// Ends the placement of versions that the worker does not hold.
void ReplaceUnlisted(StepContext& context, const Device& device,
                     const VersionSet& listed) {
  const VersionSet placed(device.versions);
  for (VersionId id : placed) {
    if (listed.contains(id)) continue;
    Version& version = *context.edit.FindVersion(id);
    if (version.state == VersionState::kUnloading) {
      VersionIsGone(context, version);
    } else {
      VersionLostItsPlace(context, version, absl::ZeroDuration());
    }
  }
}

// Spares the job unless its own work ended the worker. `suspects`: the jobs
// there may have caused the device's fault.
void SpareBystander(StepContext& context, Job& job, const WorkerLost& event,
                    bool suspects) {
  if (!job.RunsOn(event.device)) return;
  const Device& device = context.state.devices().at(event.device);
  const bool is_alone = device.jobs.size() == 1 && device.versions.empty();
  if (event.work.known() && event.work.job != job.id) {
    SpareJob(context, job, device.id, /*suspected=*/false);
  } else if (event.fault != DeviceFault::kNone) {
    SpareJob(context, job, device.id, suspects);
  } else if (!event.work.known() && !is_alone) {
    // Nobody knows whose fault it was. One that happens again and again is the
    // fault of those that are always there.
    SpareJob(context, job, device.id, /*suspected=*/true);
  }
}

// Returns "while it loaded or ran model digits/3", or "". Jobs of several
// tenants get the text, so it does not name the model of one.
std::string WorkText(const State& state, const WorkAtEnd& work) {
  if (work.job) {
    return absl::StrCat(" while it worked on job ", work.job->value());
  }
  const Version* version =
      work.version ? state.FindVersion(*work.version) : nullptr;
  return version == nullptr ? ""
                            : absl::StrCat(" while it loaded or ran ",
                                           ModelTextFor(*version, ""));
}

// Ends the ranks of a lost worker.
void LoseAttempts(StepContext& context, const Device& device,
                  const WorkerLost& event, bool suspects) {
  const std::string text =
      absl::StrCat("lost the worker of ", device.name,
                   WorkText(context.state, event.work), ": ", event.reason);
  const std::vector<JobId> jobs = JobsOf(context.state, device);
  // Before the first of them ends, since then the others would seem alone.
  for (JobId id : jobs) {
    SpareBystander(context, *context.edit.FindJob(id), event, suspects);
  }
  for (JobId id : jobs) {
    Job& job = *context.edit.FindJob(id);
    EndRank(context, job, device.id,
            {device.id, {id, job.attempt}, Outcome::kInterrupted, text});
  }
}

}  // namespace

void Apply(StepContext& context, const WorkerReady& event) {
  Device* device = context.edit.FindDevice(event.device);
  if (device == nullptr) return context.Stale();
  device->ready = true;
  if (event.limit_bytes > 0) {
    context.edit.SetLimit(*device, event.limit_bytes, device->fraction);
  }
  context.edit.ClearStrays(*device);
  context.Touch(device->id);

  const AttemptSet running(event.running.begin(), event.running.end());
  const VersionSet loaded(event.loaded.begin(), event.loaded.end());
  AttemptSet listed = running;
  listed.insert(event.left.begin(), event.left.end());
  DoubtUnlisted(context, *device, listed);
  ReplaceUnlisted(context, *device, loaded);
  for (const AttemptRef& attempt : running) {
    ReconcileListed(context, *device, attempt);
  }
  for (const AttemptRef& attempt : event.left) {
    // Nothing is booked for an attempt that is not live.
    if (!context.state.IsLiveAttempt(attempt)) continue;
    Confirm(context, *context.edit.FindJob(attempt.job), device->id);
  }
  for (VersionId id : loaded) ReconcileListed(context, *device, id);
}

void Apply(StepContext& context, const WorkerLost& event) {
  Device* device = context.edit.FindDevice(event.device);
  if (device == nullptr) return context.Stale();
  device->ready = false;
  context.edit.ClearStrays(*device);
  context.Touch(device->id);
  // If an attempt has reported the fault before, its job is the suspect.
  const bool suspects = event.fault == DeviceFault::kLostContext &&
                        !IsSameFault(*device, context.now);
  if (event.fault != DeviceFault::kNone) {
    NoteFault(context, *device, event.reason);
  }
  LoseAttempts(context, *device, event, suspects);
  ReplaceUnlisted(context, *device, {});
  if (event.fault == DeviceFault::kSuspect || !event.work.version) return;
  Version* version = context.edit.FindVersion(*event.work.version);
  if (version == nullptr) return;
  SuspectVersion(context, *version,
                 absl::StrCat("that of ", device->name, ": ", event.reason));
}

void Apply(StepContext& context, const MemoryFractionSet& event) {
  Device* device = context.edit.FindDevice(event.device);
  if (device == nullptr ||
      device->committed_bytes() > ShareOf(device->full_bytes, event.fraction)) {
    return context.Stale();
  }
  context.edit.SetLimit(*device, device->full_bytes, event.fraction);
  context.Touch(device->id);
}

}  // namespace gpupool::scheduler
