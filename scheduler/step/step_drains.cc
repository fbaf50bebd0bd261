// Handlers of drained devices: somebody wants the device for himself, for a
// repair for example.
#include <utility>
#include <vector>

#include "scheduler/step/step_context.h"

namespace gpupool::scheduler {

void Apply(StepContext& context, const DeviceDrainSet& event) {
  Device* device = context.edit.FindDevice(event.device);
  if (device == nullptr || device->drain == event.drain) {
    return context.Stale();
  }
  context.edit.SetDrain(*device, event.drain);
  if (!event.drain) Forgive(context, *device);
  context.Touch(device->id);
}

void LeaveDrained(StepContext& context) {
  for (DeviceId id : context.state.drained()) {
    const Device& device = context.state.devices().at(id);
    if (device.drain->lets_finish) continue;
    const std::vector<JobId> jobs(device.jobs.begin(), device.jobs.end());
    for (JobId job_id : jobs) {
      Job& job = *context.edit.FindJob(job_id);
      if (job.stop_sent || job.interruption) continue;
      Preempt(context, job,
              {.job = job.id, .reason = PreemptionReason::kDrain});
    }
  }
}

}  // namespace gpupool::scheduler
