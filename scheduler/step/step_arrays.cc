// Handlers of requests for whole arrays of jobs (array_limit.h).
#include <vector>

#include "scheduler/step/step_context.h"

namespace gpupool::scheduler {

void Apply(StepContext& context, const ArraySubmitted& event) {
  bool added = false;
  for (const JobSubmitted& task : event.tasks) {
    added = AddSubmitted(context, task) || added;
  }
  if (!added) return context.Stale();
  EnforceLimits(context);
}

void Apply(StepContext& context, const ArrayRequested& event) {
  const auto array = context.state.arrays().find(event.array);
  if (array == context.state.arrays().end()) return context.Stale();
  // A copy, since handlers change the set.
  const std::vector<JobId> tasks(array->second.unended.begin(),
                                 array->second.unended.end());
  for (JobId id : tasks) {
    switch (event.what) {
      case ArrayRequest::kCancel:
        Apply(context, JobCancelRequested{id});
        break;
      case ArrayRequest::kHold:
        Apply(context, JobHoldRequested{id});
        break;
      case ArrayRequest::kRelease:
        Apply(context, JobReleaseRequested{id});
        break;
      case ArrayRequest::kRequeue:
        Apply(context, JobRequeueRequested{id});
        break;
    }
  }
  // The request may be stale for some tasks; it is so as a whole only if
  // nothing changed.
  context.result.stale = context.result.changed_jobs.empty();
}

}  // namespace gpupool::scheduler
