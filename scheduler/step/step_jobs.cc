// Handlers of events of jobs and their attempts.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/state/counted.h"
#include "scheduler/step/step_context.h"
#include "scheduler/yield/serving_policy.h"

namespace gpupool::scheduler {
namespace {

// Returns the job whose live attempt runs on this device, or null.
Job* LiveJob(StepContext& context, DeviceId device, AttemptRef attempt) {
  Job* job = context.edit.FindJob(attempt.job);
  if (job == nullptr || job->attempt != attempt.number) return nullptr;
  return IsLive(job->state) && job->RunsOn(device) ? job : nullptr;
}

// Returns the same also for an attempt that has left the device and whose
// checkpoint is being written.
Job* LiveOrSavingJob(StepContext& context, DeviceId device,
                     AttemptRef attempt) {
  if (!context.state.IsLiveAttempt(attempt)) return nullptr;
  Job* job = context.edit.FindJob(attempt.job);
  return job->RunsOn(device) || job->SavesFrom(device) ? job : nullptr;
}

// Returns the job when `attempt` is its last one and was given up as lost, with
// no start since. Its results still count.
Job* LastLostJob(StepContext& context, AttemptRef attempt) {
  Job* job = context.edit.FindJob(attempt.job);
  if (job == nullptr || attempt.number == 0) return nullptr;
  if (job->attempt != attempt.number) return nullptr;
  // Such a job was given up when its worker was lost, and the worker came back
  // later with the result.
  const bool waits =
      job->state == JobState::kBackingOff || job->state == JobState::kQueued;
  return waits ? job : nullptr;
}

std::string ModelText(const State& state, const Job& job) {
  const Version* version =
      job.yields_to ? state.FindVersion(*job.yields_to) : nullptr;
  return version == nullptr ? "a model" : ModelTextFor(*version, job.tenant);
}

// Returns which reservation takes a device of the job. It may have been
// cancelled meanwhile.
std::string ReservedDeviceText(const State& state, const Job& job) {
  for (const Rank& rank : job.ranks) {
    const TenantReservation* reservation =
        state.reservations().At(rank.device, state.now());
    if (reservation == nullptr || reservation->Takes(job.tenant)) continue;
    return absl::StrCat("device ",
                        ReservedText(state.devices().at(rank.device).name,
                                     *reservation, state.now()));
  }
  return "makes room for a reservation";
}

std::string StopText(const State& state, const Job& job) {
  const std::string other =
      job.gives_way_to ? absl::StrCat("job ", job.gives_way_to->value())
                       : std::string("another job");
  switch (*job.stop_sent) {
    case StopReason::kPreempted:
      return absl::StrCat("preempted by ", other, "; waits to resume");
    case StopReason::kMoved:
      return absl::StrCat("moves to make room for ", other,
                          "; waits to resume");
    case StopReason::kServing:
      return absl::StrCat("makes room for ", ModelText(state, job),
                          "; waits to resume");
    case StopReason::kDrained:
      return "its device is drained; waits to resume";
    case StopReason::kReserved:
      return absl::StrCat(ReservedDeviceText(state, job), "; waits to resume");
    case StopReason::kResized:
      return job.gives_way_to
                 ? absl::StrCat("gives devices to ", other, "; waits to resume")
                 : "is to have more devices; waits to resume";
    case StopReason::kHeld:
      return "held; when it is released it resumes";
    case StopReason::kRequeued:
      return "queued again as asked; resumes";
    default:
      return "stopped by a drain; resumes";
  }
}

// Relative error of a job's known run time above which it is renewed. A smaller
// one would change the order of the queue with every report.
constexpr double kRemainingTolerance = 0.1;

bool IsNews(const Job& job, absl::Duration remaining, absl::Time now) {
  if (!job.expected_run) return true;
  const absl::Duration known = *job.expected_run - job.Attained(now);
  return absl::AbsDuration(remaining - known) >
         kRemainingTolerance * absl::AbsDuration(known);
}

}  // namespace

void MoveJob(StepContext& context, Job& job, JobState to, std::string reason) {
  const JobState from = job.state;
  // The clock depends on the state, so it starts before the state changes.
  if (to == JobState::kRunning) context.edit.StartClock(job, context.now);
  if (!IsLive(to)) {
    context.edit.StopClock(job, context.now);
    job.stop_sent.reset();
    job.gives_way_to.reset();
    job.yields_to.reset();
    for (const Rank& rank : job.ranks) context.Touch(rank.device);
    // Touched above: release forgets the ranks.
    context.edit.ReleaseJob(job);
  }
  context.edit.SetWakeTime(job, absl::InfiniteFuture());
  context.edit.SetJobState(job, to);
  context.Touch(job);
  context.result.job_changes.push_back(
      {job.id, job.attempt, from, to, std::move(reason)});
}

void InterruptJob(StepContext& context, Job& job, absl::string_view reason) {
  if (job.spared) return RetryOrBlame(context, job, reason);
  ++job.failures;
  if (job.failures >= job.max_attempts) {
    MoveJob(context, job, JobState::kFailed,
            absl::StrCat("gave up after ", job.failures, " of ",
                         Counted(job.max_attempts, "attempt"), ": ", reason));
    return;
  }
  const absl::Duration wait = Backoff(job.first_backoff, job.failures);
  MoveJob(context, job, JobState::kBackingOff,
          absl::StrCat(reason, "; tries again in ", absl::FormatDuration(wait),
                       " (", job.failures, " of ",
                       Counted(job.max_attempts, "attempt"), " used)"));
  context.edit.SetWakeTime(job, context.now + wait);
  context.Act(SetTimer{job.wake_time});
}

void RequeueJob(StepContext& context, Job& job) {
  const std::string from = job.checkpoint_step > 0
                               ? absl::StrCat("step ", job.checkpoint_step)
                               : std::string("the start");
  // The job was stopped because its time is over. Queued again, it would exceed
  // its limit at once.
  if (job.stop_sent == StopReason::kOverTime) return FailAtLimit(context, job);
  if (job.stop_sent) {
    const std::string lost =
        job.interruption ? absl::StrCat("; what it did after that is lost: ",
                                        *job.interruption)
                         : "";
    MoveJob(context, job, JobState::kQueued,
            absl::StrCat(StopText(context.state, job), " from ", from, lost));
    return;
  }
  // Nobody here asked for the stop: the worker is ending by itself. That is no
  // failure of the job, but a reason to wait.
  MoveJob(context, job, JobState::kBackingOff,
          absl::StrCat("stopped by the worker; resumes from ", from));
  context.edit.SetWakeTime(job, context.now + Backoff(job.first_backoff, 1));
  context.Act(SetTimer{job.wake_time});
}

void SucceedJob(StepContext& context, Job& job) {
  MoveJob(context, job, JobState::kSucceeded, "finished");
  // MoveJob has stopped the clock, so the run time is complete.
  context.edit.LearnRunTime(job);
  if (job.publish_on_success && job.checkpoint_step > 0) {
    context.Act(CreateVersion{job.id});
  }
}

void NoteRunning(StepContext& context, Job& job) {
  if (job.state != JobState::kStarting) return;
  const absl::Time wake = job.wake_time;
  MoveJob(context, job, JobState::kRunning, "the worker runs it");
  context.edit.SetWakeTime(job, wake);
}

bool AddSubmitted(StepContext& context, const JobSubmitted& event) {
  if (context.edit.FindJob(event.id) != nullptr) return false;
  Job job{event};
  job.device_count = std::max(job.device_count, 1u);
  job.max_attempts = std::max(job.max_attempts, 1u);
  if (context.state.policy().placement == PlacementRule::kPack) {
    context.edit.LearnNeed(job);
  }
  context.Touch(context.edit.AddJob(std::move(job)));
  return true;
}

void Apply(StepContext& context, const JobSubmitted& event) {
  if (!AddSubmitted(context, event)) return context.Stale();
  EnforceLimits(context);
}

void Apply(StepContext& context, const JobCancelRequested& event) {
  Job* job = context.edit.FindJob(event.job);
  if (job == nullptr || IsEnded(job->state) ||
      job->state == JobState::kCancelling) {
    return context.Stale();
  }
  if (!IsLive(job->state)) {
    MoveJob(context, *job, JobState::kCancelled, "cancelled");
    return;
  }
  const absl::Time wake = job->wake_time;
  MoveJob(context, *job, JobState::kCancelling, "cancel was asked for");
  context.edit.SetWakeTime(*job, wake);
  StopRanks(context, *job, StopReason::kCancelled);
  if (!job->HoldsDevices()) {  // nobody needs its checkpoint
    MoveJob(context, *job, JobState::kCancelled, "cancelled");
  }
}

void Apply(StepContext& context, const JobHoldRequested& event) {
  Job* job = context.edit.FindJob(event.job);
  if (job == nullptr || IsEnded(job->state) || job->held ||
      job->state == JobState::kCancelling) {
    return context.Stale();
  }
  context.edit.SetHeld(*job, true);
  context.Touch(*job);
  if (IsLive(job->state)) AskToStop(context, *job, StopReason::kHeld);
}

void Apply(StepContext& context, const JobReleaseRequested& event) {
  Job* job = context.edit.FindJob(event.job);
  if (job == nullptr || !job->held) return context.Stale();
  context.edit.SetHeld(*job, false);
  context.Touch(*job);
}

void Apply(StepContext& context, const JobRehearsed& event) {
  Job* job = context.edit.FindJob(event.job);
  if (job == nullptr || !job->untried || IsEnded(job->state)) {
    return context.Stale();
  }
  context.edit.SetTried(*job);
  context.Touch(*job);
  // An Unavailable rehearsal says nothing about the job. It may start without
  // one.
  if (event.status.ok() || absl::IsUnavailable(event.status)) return;
  MoveJob(
      context, *job, JobState::kFailed,
      absl::StrCat("failed before it got a device: ", event.status.message()));
}

void Apply(StepContext& context, const JobRequeueRequested& event) {
  Job* job = context.edit.FindJob(event.job);
  if (job == nullptr || IsEnded(job->state) ||
      job->state == JobState::kCancelling) {
    return context.Stale();
  }
  // The user wants new attempts, so the old failures do not count.
  job->failures = 0;
  job->faults.clear();
  context.Touch(*job);
  if (job->state == JobState::kBackingOff) {
    MoveJob(context, *job, JobState::kQueued, "queued again as asked");
  } else if (IsLive(job->state)) {
    AskToStop(context, *job, StopReason::kRequeued);
  }
}

void Apply(StepContext& context, const DrainRequested& event) {
  context.edit.SetDraining(event.stop);
  if (!event.stop) return;
  for (const auto& [id, unused] : context.state.jobs()) {
    Job& job = *context.edit.FindJob(id);
    if (!IsLive(job.state) || job.state == JobState::kCancelling) continue;
    const bool asked = job.stop_sent.has_value();
    job.stop_sent = StopReason::kDrain;
    if (asked) continue;
    // An interrupted attempt was already told to stop, and cannot save without
    // its lost rank.
    if (!job.interruption) StopRanks(context, job, StopReason::kDrain);
  }
}

void Apply(StepContext& context, const AttemptStarted& event) {
  Job* job = LiveJob(context, event.device, event.attempt);
  if (job == nullptr) return context.Stale();
  NoteRunning(context, *job);
  if (!event.restored_in || job->save_time <= absl::ZeroDuration()) return;
  // A restart costs what saving and restoring take. Policies weigh moves by it.
  context.edit.AddRestartCost(job->save_time + *event.restored_in);
}

void Apply(StepContext& context, const ProgressMade& event) {
  Job* job = LiveJob(context, event.device, event.attempt);
  if (job == nullptr) return context.Stale();
  NoteRunning(context, *job);
  if (!event.remaining || !IsNews(*job, *event.remaining, context.now)) return;
  context.edit.SetExpectedRun(
      *job, job->Attained(context.now) + *event.remaining, context.now);
}

void Apply(StepContext& context, const CheckpointSaved& event) {
  Job* job = LiveOrSavingJob(context, event.device, event.attempt);
  if (job == nullptr) job = LastLostJob(context, event.attempt);
  if (job == nullptr || event.step < job->checkpoint_step) {
    return context.Stale();
  }
  // A job that makes progress is not to blame for the faults before.
  if (event.step > job->checkpoint_step) job->faults.clear();
  job->checkpoint_step = event.step;
  job->save_time = event.took + event.wrote;
  context.Touch(*job);
}

void Apply(StepContext& context, const AttemptEnded& event) {
  Device* device = context.edit.FindDevice(event.device);
  if (device == nullptr) return context.Stale();
  if (context.edit.RemoveStray(*device, event.attempt)) {
    context.Touch(device->id);
    return context.Stale();
  }
  if (Job* job = LiveOrSavingJob(context, event.device, event.attempt)) {
    // A repeated report brings nothing new.
    if (event.outcome == Outcome::kSaving && job->SavesFrom(event.device)) {
      return context.Stale();
    }
    EndRank(context, *job, event.device, event);
    return;
  }
  Job* job = LastLostJob(context, event.attempt);
  // The success of one rank does not finish a job of several.
  if (job != nullptr && event.outcome == Outcome::kSucceeded &&
      job->device_count == 1 && !job->elastic()) {
    SucceedJob(context, *job);
  } else if (job != nullptr && event.outcome == Outcome::kFailed) {
    MoveJob(context, *job, JobState::kFailed, event.message);
  } else {
    context.Stale();
  }
}

void Apply(StepContext& context, const TimerFired&) {
  context.edit.TimerHasFired(context.now);
  while (auto id = context.state.DueJob(context.now)) {
    Job& due = *context.edit.FindJob(*id);
    if (IsLive(due.state)) {
      GiveUpMissing(context, due);
    } else {
      MoveJob(context, due, JobState::kQueued, "its wait is over");
    }
  }
  EnforceLimits(context);
}

}  // namespace gpupool::scheduler
