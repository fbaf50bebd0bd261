// After every event: load the versions and start the jobs that fit now.
#include "scheduler/placement_policy.h"
#include "scheduler/queue_policy.h"
#include "scheduler/step_context.h"
#include "scheduler/version_policy.h"

namespace gpupool::scheduler {
namespace {

void LoadOn(StepContext& context, Version& version, DeviceId device) {
  context.edit.PlaceVersion(version, device);
  version.load = context.edit.NextLoad();
  version.load_sent = true;
  version.error.clear();
  context.Touch(version);
  context.Touch(device);
  context.Act(LoadVersion{version.id, device, version.load, version.bytes});
}

void GiveUp(StepContext& context, Version& version,
            const Placement& placement) {
  version.state = VersionState::kLoadFailed;
  version.error = NeverFitsText({version.bytes, ""}, placement);
  context.Touch(version);
}

void KeepWaiting(StepContext& context, Version& version,
                 const Placement& placement) {
  std::string text = VersionWaitText(version, placement);
  if (version.error == text) return;
  version.error = std::move(text);
  context.Touch(version);
}

// True when something was placed or given up, so that the rest must be looked
// at again.
bool CarryOutOne(StepContext& context, const VersionMoves& moves) {
  for (const VersionMove& move : moves.moves) {
    Version& version = *context.edit.FindVersion(move.version);
    switch (move.placement.fit) {
      case Fit::kNow:
        LoadOn(context, version, move.placement.device);
        return true;
      case Fit::kNever:
        GiveUp(context, version, move.placement);
        return true;
      case Fit::kNotNow:
        KeepWaiting(context, version, move.placement);
    }
  }
  return false;
}

absl::btree_set<DeviceId> LoadVersions(StepContext& context) {
  while (true) {
    VersionMoves moves = ChooseMoves(context.state, context.now);
    if (!CarryOutOne(context, moves)) return std::move(moves.holds);
  }
}

void CountPass(StepContext& context, JobId passed) {
  Job& job = *context.edit.FindJob(passed);
  if (++job.passes < kMaxPasses || job.held_device) return;
  job.held_device = DeviceToHold(context.state, {job.bytes, job.device_kind});
}

void StartOn(StepContext& context, Job& job, DeviceId device) {
  ++job.attempt;
  job.passes = 0;
  job.drain_stop_sent = false;
  context.edit.PlaceJob(job, device);
  MoveJob(context, job, JobState::kStarting,
          "placed on " + context.state.devices().at(device).name);
  context.Touch(device);
  context.Act(StartJob{{job.id, job.attempt}, device, job.bytes});
}

}  // namespace

void Schedule(StepContext& context) {
  if (context.state.stopping() || context.state.starts_held()) return;
  const absl::btree_set<DeviceId> held = LoadVersions(context);
  if (context.state.draining()) return;
  while (auto next = ChooseNext(context.state, held)) {
    for (JobId passed : next->passed) CountPass(context, passed);
    StartOn(context, *context.edit.FindJob(next->job), next->device);
  }
}

}  // namespace gpupool::scheduler
