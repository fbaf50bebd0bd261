// Handlers of plans that were made again.
#include "scheduler/step/step_context.h"

namespace gpupool::scheduler {

void Apply(StepContext& context, const JobPlanned& event) {
  Job* job = context.edit.FindJob(event.job);
  if (job == nullptr || IsEnded(job->state)) return context.Stale();
  context.edit.SetBytes(*job, event.bytes);
  context.Touch(*job);
}

void Apply(StepContext& context, const VersionPlanned& event) {
  Version* version = context.edit.FindVersion(event.version);
  if (version == nullptr) return context.Stale();
  context.edit.SetBytes(*version, event.bytes);
  context.Touch(*version);
}

void Apply(StepContext& context, const StartsHeld& event) {
  context.edit.HoldStarts(event.held);
}

}  // namespace gpupool::scheduler
