// Limits of a job's time, and jobs that wait for other jobs.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/step/step_context.h"

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

// Returns why the job came to a limit.
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
  // If the clock was set back meanwhile, the deadline is in the future again.
  if (now >= job.deadline || !job.expected_run) {
    return absl::StrCat("did not end ", deadline, KeptText(job));
  }
  return absl::StrCat("cannot end ", deadline, ": it needs ",
                      absl::FormatDuration(absl::Trunc(
                          *job.expected_run - job.attained, absl::Seconds(1))),
                      " more", KeptText(job));
}

// Returns true when a task of the array fails later in this step than change i,
// a success. The later one then decides.
bool FailsLater(const StepContext& context, size_t i, JobId array) {
  const std::vector<JobChange>& changes = context.result.job_changes;
  if (changes[i].to != JobState::kSucceeded) return false;
  return std::any_of(
      changes.begin() + i, changes.end(), [&](const auto& later) {
        const Job* job = context.state.FindJob(later.job);
        return job != nullptr && job->array == array && IsEnded(later.to) &&
               later.to != JobState::kSucceeded;
      });
}

// Tells the jobs that wait for `before`: the job that ended, or its array.
// While more tasks of the array are to come (`is_over` is false), tells only
// jobs that cannot succeed any more.
void SettleAfter(StepContext& context, const JobChange& change, JobId before,
                 bool is_over) {
  const bool succeeded = change.to == JobState::kSucceeded;
  if (succeeded && !is_over) return;
  const auto& all = context.state.dependents();
  auto next = all.lower_bound({before, JobId()});
  while (next != all.end() && next->first == before) {
    const JobId id = next->second;
    Job& job = *context.edit.FindJob(id);
    const bool fails = !succeeded && job.after_ok.contains(before);
    if (fails || is_over) context.edit.RemovePrerequisite(job, before);
    if (fails && !IsEnded(job.state)) {
      MoveJob(
          context, job, JobState::kFailed,
          absl::StrCat(
              "job ", change.job.value(),
              before == change.job ? ""
                                   : absl::StrCat(" of array ", before.value()),
              ", after which it was to run, ",
              change.to == JobState::kFailed ? "failed" : "was cancelled"));
    }
    next = all.upper_bound({before, id});
  }
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
  // By index, since jobs that fail here are appended and settled in turn.
  for (size_t i = 0; i < context.result.job_changes.size(); ++i) {
    const JobChange change = context.result.job_changes[i];
    if (!IsEnded(change.to)) continue;
    SettleAfter(context, change, change.job, true);
    const Job* job = context.state.FindJob(change.job);
    if (job == nullptr || job->array == JobId()) continue;
    SettleAfter(context, change, job->array,
                !context.state.arrays().contains(job->array) &&
                    !FailsLater(context, i, job->array));
  }
}

void WatchLimits(StepContext& context) {
  const absl::Time next = std::max(context.state.NextLimit(), context.now);
  if (next == absl::InfiniteFuture() || !context.edit.ArmTimer(next)) return;
  context.Act(SetTimer{next});
}

}  // namespace gpupool::scheduler
