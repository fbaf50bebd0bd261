// The end of an attempt, rank by rank.
#include "scheduler/step/step_context.h"
#include "scheduler/yield/preemption_reasons.h"

namespace gpupool::scheduler {
namespace {

bool SomeRankStopped(const Job& job) {
  for (const Rank& rank : job.ranks) {
    if (rank.end == Outcome::kStopped) return true;
  }
  return false;
}

// Fails the job at once, with the message of the rank that failed. The other
// ranks cannot go on, and their messages explain nothing. They become strays
// until their workers report them gone.
void FailJob(StepContext& context, Job& job, const std::string& message) {
  StopRanks(context, job, StopReason::kCancelled);
  for (const Rank& rank : job.ranks) {
    if (rank.end) continue;
    Device& device = *context.edit.FindDevice(rank.device);
    context.edit.AddStray(device, AttemptRef{job.id, job.attempt},
                          BytesOn(job, device));
  }
  MoveJob(context, job, JobState::kFailed, message);
}

// Interrupts the attempt: the other ranks cannot go on without the lost one.
void BreakUp(StepContext& context, Job& job, const std::string& reason) {
  if (job.interruption) return;
  job.interruption = reason;
  StopRanks(context, job, StopReason::kCancelled);
}

// Takes in a fault of the device that the attempt itself reports.
void TakeFault(StepContext& context, Job& job, const AttemptEnded& event) {
  NoteFault(context, *context.edit.FindDevice(event.device), event.message);
  SpareJob(context, job, event.device,
           event.fault == DeviceFault::kLostContext);
}

// Ends the attempt. All ranks must have ended for good, or the job is being
// cancelled.
void EndAttempt(StepContext& context, Job& job) {
  if (job.state == JobState::kCancelling) {
    MoveJob(context, job, JobState::kCancelled, "cancelled");
  } else if (job.interruption && !job.stop_sent) {
    const std::string reason = *job.interruption;
    InterruptJob(context, job, reason);
  } else if (job.interruption || SomeRankStopped(job)) {
    RequeueJob(context, job);
  } else {
    SucceedJob(context, job);
  }
}

}  // namespace

void StopRanks(StepContext& context, const Job& job, StopReason reason) {
  for (const Rank& rank : job.ranks) {
    if (rank.end) continue;
    context.Act(StopJob{{job.id, job.attempt}, rank.device, reason});
  }
}

void AskToStop(StepContext& context, Job& job, StopReason reason) {
  if (job.stop_sent || job.interruption) return;
  job.stop_sent = reason;
  StopRanks(context, job, reason);
}

void Preempt(StepContext& context, Job& job, const Preemption& preemption) {
  AskToStop(context, job, RowOf(preemption.reason).stop);
  if (preemption.gives_way_to) job.gives_way_to = preemption.gives_way_to;
  if (preemption.yields_to) job.yields_to = preemption.yields_to;
  context.result.preemptions.push_back(preemption);
}

void EndRank(StepContext& context, Job& job, DeviceId device,
             const AttemptEnded& event) {
  context.edit.EndRank(job, device, event.outcome);
  context.Touch(device);
  context.Touch(job);
  if (job.state != JobState::kCancelling) {
    if (event.outcome == Outcome::kFailed) {
      return FailJob(context, job, event.message);
    }
    if (event.outcome == Outcome::kInterrupted) {
      BreakUp(context, job, event.message);
    }
    if (event.fault != DeviceFault::kNone) TakeFault(context, job, event);
    if (event.spared) SpareJob(context, job, device, /*suspected=*/false);
  }
  if (event.outcome == Outcome::kSucceeded) {
    NoteSuccess(context, *context.edit.FindDevice(device));
  }
  if (job.HoldsDevices()) return;
  context.edit.StopClock(job, context.now);
  if (!job.Saves() || job.state == JobState::kCancelling) {
    EndAttempt(context, job);
  }
}

void GiveUpMissing(StepContext& context, Job& job) {
  context.edit.SetWakeTime(job, absl::InfiniteFuture());
  const AttemptRef attempt{job.id, job.attempt};
  const Ranks ranks = job.ranks;
  for (const Rank& rank : ranks) {
    if (!rank.missing) continue;
    // If it exists after all, it must not run beside its successor.
    context.Act(StopJob{attempt, rank.device, StopReason::kCancelled});
    EndRank(context, job, rank.device,
            {rank.device, attempt, Outcome::kInterrupted,
             "the worker does not have the attempt"});
  }
}

}  // namespace gpupool::scheduler
