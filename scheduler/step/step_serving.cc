// Training that gives way to served models.
#include <algorithm>

#include "scheduler/step/step_context.h"
#include "scheduler/yield/serving_policy.h"

namespace gpupool::scheduler {
namespace {

void TellToYield(StepContext& context, Job& job, VersionId version) {
  Preempt(context, job,
          {.job = job.id,
           .yields_to = version,
           .reason = PreemptionReason::kServing});
}

void WakeAt(StepContext& context, absl::Time time) {
  if (time == absl::InfiniteFuture() || !context.edit.ArmTimer(time)) return;
  context.Act(SetTimer{time});
}

}  // namespace

void Apply(StepContext& context, const ServingLoadChanged& event) {
  Version* version = context.edit.FindVersion(event.version);
  if (version == nullptr || version->under_load == event.under_load) {
    return context.Stale();
  }
  const bool is_served = version->state == VersionState::kReady ||
                         version->state == VersionState::kLoading;
  if (event.under_load && !is_served) return context.Stale();
  context.edit.SetUnderLoad(*version, event.under_load);
  if (version->device) context.Touch(*version->device);
}

void YieldToServing(StepContext& context, absl::btree_set<DeviceId>& held) {
  absl::Time next = absl::InfiniteFuture();
  for (const auto& [device, version] : DevicesUnderLoad(context.state)) {
    held.insert(device);
    if (const auto job = context.state.devices().at(device).reserved_for) {
      context.edit.Unreserve(*context.edit.FindJob(*job));
    }
    const Yields yields = JobsThatYield(context.state, device, context.now);
    for (JobId job : yields.jobs) {
      TellToYield(context, *context.edit.FindJob(job), version);
    }
    next = std::min(next, yields.next);
  }
  WakeAt(context, next);
}

void MakeRoomFor(StepContext& context, const Version& version,
                 const std::vector<JobId>& jobs) {
  for (JobId job : jobs) {
    TellToYield(context, *context.edit.FindJob(job), version.id);
  }
}

void WatchMinRuns(StepContext& context) {
  if (!context.state.policy().yields_to_serving) return;
  WakeAt(context, NextMinRun(context.state, context.now));
}

}  // namespace gpupool::scheduler
