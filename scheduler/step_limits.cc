// Limits of a job's time, and jobs that wait for others.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/step_context.h"

namespace gpupool::scheduler {
namespace {

std::string TimeText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

std::string KeptText(const Job& job) {
  return job.checkpoint_step > 0 ? absl::StrCat("; the checkpoint of step ",
                                                job.checkpoint_step, " is kept")
                                 : "";
}

// Of a job that has come to a limit.
std::string LimitText(const Job& job, absl::Time now) {
  if (job.max_run && job.Attained(now) >= *job.max_run) {
    return absl::StrCat("ran for its max_run_seconds of ",
                        absl::ToDoubleSeconds(*job.max_run), KeptText(job));
  }
  if (job.attempt == 0 && now >= job.start_before) {
    return absl::StrCat("was not started before ", TimeText(job.start_before),
                        ", its start_before");
  }
  const std::string deadline =
      absl::StrCat("before ", TimeText(job.deadline), ", its deadline");
  // Where the clock was set back meanwhile, the limit has passed no more.
  if (now >= job.deadline || !job.expected_run) {
    return absl::StrCat("did not end ", deadline, KeptText(job));
  }
  return absl::StrCat("cannot end ", deadline, ": it needs ",
                      absl::FormatDuration(absl::Trunc(
                          *job.expected_run - job.attained, absl::Seconds(1))),
                      " more", KeptText(job));
}

}  // namespace

void EnforceLimits(StepContext& context) {
  while (auto id = context.state.JobAtLimit(context.now)) {
    Job& job = *context.edit.FindJob(*id);
    if (IsLive(job.state)) {
      context.edit.ForgetLimit(job);
      AskToStop(context, job, StopReason::kOverTime);
    } else {
      MoveJob(context, job, JobState::kFailed, LimitText(job, context.now));
    }
  }
}

void FailAtLimit(StepContext& context, Job& job) {
  MoveJob(context, job, JobState::kFailed, LimitText(job, context.now));
}

void SettleDependents(StepContext& context) {
  // By index: jobs that fail here are appended and settled in their turn.
  for (size_t i = 0; i < context.result.job_changes.size(); ++i) {
    const JobChange change = context.result.job_changes[i];
    if (!IsEnded(change.to)) continue;
    const auto& all = context.state.dependents();
    auto next = all.lower_bound({change.job, JobId()});
    for (; next != all.end() && next->first == change.job;
         next = all.lower_bound({change.job, JobId()})) {
      Job& job = *context.edit.FindJob(next->second);
      const bool fails = change.to != JobState::kSucceeded &&
                         job.after_ok.contains(change.job);
      context.edit.RemovePrerequisite(job, change.job);
      if (!fails || IsEnded(job.state)) continue;
      MoveJob(context, job, JobState::kFailed,
              absl::StrCat(
                  "job ", change.job.value(), ", after which it was to run, ",
                  change.to == JobState::kFailed ? "failed" : "was cancelled"));
    }
  }
}

void WatchLimits(StepContext& context) {
  const absl::Time next = std::max(context.state.NextLimit(), context.now);
  if (next == absl::InfiniteFuture() || !context.edit.ArmTimer(next)) return;
  context.Act(SetTimer{next});
}

}  // namespace gpupool::scheduler
