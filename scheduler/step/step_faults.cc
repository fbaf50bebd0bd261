// Faults of devices:
//   * A device that fails cools down.
//   * The job that it failed under is not charged.
//   * A job under which one device after another fails is to blame itself, and
//     the devices are forgiven.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/state/counted.h"
#include "scheduler/step/step_context.h"

namespace gpupool::scheduler {
namespace {

absl::Duration Cooldown(uint32_t faults) {
  // The bound of 30 keeps the shift from overflowing.
  const uint32_t doublings = std::min(faults > 0 ? faults - 1 : 0, 30u);
  return std::min(kFirstCooldown * (int64_t{1} << doublings), kLongestCooldown);
}

absl::btree_set<DeviceId> DevicesOf(const Job& job) {
  return {job.faults.begin(), job.faults.end()};
}

void Blame(StepContext& context, Job& job, absl::string_view reason) {
  const absl::btree_set<DeviceId> devices = DevicesOf(job);
  const std::string names =
      absl::StrJoin(devices, ", ", [&](std::string* text, DeviceId id) {
        text->append(context.state.devices().at(id).name);
      });
  const std::string text =
      absl::StrCat("is to blame: ", job.faults.size(), " faults of ", names,
                   " under it, all after step ", job.checkpoint_step,
                   ", its last checkpoint; the last one: ", reason);
  for (DeviceId id : devices) Forgive(context, *context.edit.FindDevice(id));
  context.result.blamed.push_back(job.id);
  MoveJob(context, job, JobState::kFailed, text);
}

}  // namespace

void EndCooldowns(StepContext& context) {
  while (auto id = context.state.CooledDevice(context.now)) {
    context.edit.SetCoolsUntil(*context.edit.FindDevice(*id),
                               absl::InfinitePast());
    context.Touch(*id);
  }
}

bool IsSameFault(const Device& device, absl::Time now) {
  return device.cools() || now - device.last_fault < kFirstCooldown;
}

void NoteFault(StepContext& context, Device& device, const std::string& text) {
  if (IsSameFault(device, context.now)) return;
  if (context.now - device.last_fault > kFaultMemory) device.faults = 0;
  ++device.faults;
  device.last_fault = context.now;
  device.fault_text = text;
  const absl::Time until = context.now + Cooldown(device.faults);
  context.edit.SetCoolsUntil(device, until);
  context.Act(SetTimer{until});
  context.Touch(device.id);
}

void Forgive(StepContext& context, Device& device) {
  if (device.faults == 0) return;
  device.faults = 0;
  device.fault_text.clear();
  context.edit.SetCoolsUntil(device, absl::InfinitePast());
  context.Touch(device.id);
}

void NoteSuccess(StepContext& context, Device& device) {
  // While the device cools down, the success of another job proves nothing.
  if (!device.cools()) Forgive(context, device);
}

void SpareJob(StepContext& context, Job& job, DeviceId device, bool suspected) {
  job.spared = true;
  if (suspected) job.faults.push_back(device);
  context.Touch(job);
}

void RetryOrBlame(StepContext& context, Job& job, absl::string_view reason) {
  if (job.faults.size() >= kBlameFaults ||
      DevicesOf(job).size() >= kBlameDevices) {
    return Blame(context, job, reason);
  }
  const auto faults = static_cast<uint32_t>(job.faults.size());
  const absl::Duration wait =
      Backoff(job.first_backoff, std::max(faults, uint32_t{1}));
  MoveJob(context, job, JobState::kBackingOff,
          absl::StrCat(reason,
                       job.faults.empty()
                           ? "; that was not the job's fault: tries again in "
                           : "; the device failed, not the job: tries again "
                             "in ",
                       absl::FormatDuration(wait), " (", job.failures, " of ",
                       Counted(job.max_attempts, "attempt"), " used)"));
  context.edit.SetWakeTime(job, context.now + wait);
  context.Act(SetTimer{job.wake_time});
}

}  // namespace gpupool::scheduler
