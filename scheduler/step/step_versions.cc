// Handlers of events of model versions.
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/step/step_context.h"
#include "scheduler/yield/version_policy.h"

namespace gpupool::scheduler {
namespace {

// Returns the version whose pending LoadVersion is answered, or null.
Version* LoadingVersion(StepContext& context, VersionId id, uint64_t load) {
  Version* version = context.edit.FindVersion(id);
  // The number tells this load from an earlier one, whose answer may come late.
  if (version == nullptr || !version->load_sent || version->load != load) {
    return nullptr;
  }
  return version;
}

void Want(StepContext& context, Version& version) {
  version.state = VersionState::kLoading;
  version.request = context.edit.NextRequest();
  version.retry_time = absl::InfinitePast();
  version.worker_ends = 0;
  version.suspected = false;
  version.error.clear();
  context.Touch(version);
}

// Gives up a version that is LOADING without a place, for good.
void GiveUpSuspect(StepContext& context, Version& version,
                   const std::string& reason) {
  version.suspected = false;
  FailLoad(
      context, version,
      absl::StrCat(reason, "; it is tried again after `gpupool models load ",
                   version.model, "/", version.number, "`"));
}

void SendUnload(StepContext& context, const Version& version) {
  context.Act(UnloadVersion{version.id, *version.device});
}

void BeginUnload(StepContext& context, Version& version) {
  const bool was_ready = version.state == VersionState::kReady;
  version.reload = false;
  version.replaces_older = false;
  version.suspected = false;
  version.error.clear();
  context.edit.SetUnderLoad(version, false);
  context.Touch(version);
  // It may have been served until its worker was lost, and requests may wait.
  if (!was_ready) context.Act(ForgetVersion{version.id});
  // Nothing is loaded anywhere, so there is nothing to wait for.
  if (!version.device) {
    version.state = VersionState::kUnloaded;
    return;
  }
  version.state = VersionState::kUnloading;
  // A pending load is not drained: its answer tells what has to be undone.
  if (was_ready) context.Act(DrainVersion{version.id, *version.device});
}

// Gives up a load that was not answered in time. The worker may or may not hold
// the version, so the bytes stay booked as a stray until it says so.
void UndoUnansweredLoad(StepContext& context, Version& version) {
  Device& device = *context.edit.FindDevice(*version.device);
  const uint64_t bytes = version.bytes;
  context.edit.ReleaseVersion(version);
  context.edit.AddStray(device, version.id, bytes);
  context.Act(UnloadVersion{version.id, device.id});
}

}  // namespace

void VersionIsReady(StepContext& context, Version& version) {
  version.suspected = false;
  version.load_sent = false;
  version.state = VersionState::kReady;
  version.error.clear();
  context.Touch(version);
  context.Touch(*version.device);
  context.Act(ServeVersion{version.id, *version.device});
  if (!version.replaces_older) return;
  version.replaces_older = false;
  // The older versions are unloaded only now, when the new one is served. The
  // model is served without a gap.
  for (VersionId id : ReplacedBy(context.state, version)) {
    BeginUnload(context, *context.edit.FindVersion(id));
  }
}

void VersionLostItsPlace(StepContext& context, Version& version,
                         absl::Duration delay) {
  if (version.device) context.Touch(*version.device);
  context.edit.ReleaseVersion(version);
  version.load_sent = false;
  version.state = VersionState::kLoading;
  version.retry_time = context.now + delay;
  context.Touch(version);
  if (delay > absl::ZeroDuration()) context.Act(SetTimer{version.retry_time});
}

void FailLoad(StepContext& context, Version& version, std::string error) {
  version.state = VersionState::kLoadFailed;
  version.error = std::move(error);
  context.Touch(version);
  // It may have been served until its worker was lost, and requests may wait.
  context.Act(ForgetVersion{version.id});
}

void SuspectVersion(StepContext& context, Version& version,
                    const std::string& reason) {
  // Old ends do not count: they may have had another cause.
  if (context.now - version.last_worker_end > kFaultMemory) {
    version.worker_ends = 0;
  }
  ++version.worker_ends;
  version.last_worker_end = context.now;
  context.Touch(version);
  // The ends are counted in every state. Only a version without a place becomes
  // a suspect.
  if (version.state != VersionState::kLoading || version.device) return;
  if (version.worker_ends >= kMostWorkerEnds) {
    return GiveUpSuspect(context, version,
                         absl::StrCat("workers ended ", version.worker_ends,
                                      " times while they loaded or ran the "
                                      "version, the last one: ",
                                      reason));
  }
  version.suspected = true;
  version.retry_time = absl::InfinitePast();
  version.error = absl::StrCat(
      "is tried alone, since a worker ended while it loaded or ran the "
      "version: ",
      reason);
}

void RehearseSuspects(StepContext& context) {
  for (const auto& [id, known] : context.state.versions()) {
    if (!known.suspected || known.rehearsal_sent ||
        known.state != VersionState::kLoading || known.device ||
        known.retry_time > context.now) {
      continue;
    }
    Version& version = *context.edit.FindVersion(id);
    // The answer to the rehearsal carries this number back.
    version.load = context.edit.NextLoad();
    version.rehearsal_sent = true;
    context.Act(RehearseVersion{version.id, version.load});
  }
}

void VersionIsGone(StepContext& context, Version& version) {
  if (version.device) context.Touch(*version.device);
  context.edit.ReleaseVersion(version);
  version.load_sent = false;
  version.state = VersionState::kUnloaded;
  context.Touch(version);
  if (!version.reload) return;
  version.reload = false;
  Want(context, version);
}

void Apply(StepContext& context, const VersionCreated& event) {
  if (context.edit.FindVersion(event.version) != nullptr) {
    return context.Stale();
  }
  Version version;
  version.id = event.version;
  version.model = event.model;
  version.number = event.number;
  version.bytes = event.bytes;
  version.tenant = event.tenant;
  version.replaces_older = event.replaces_older;
  context.Touch(context.edit.AddVersion(std::move(version)));
}

void Apply(StepContext& context, const VersionLoadRequested& event) {
  Version* version = context.edit.FindVersion(event.version);
  if (version == nullptr) return context.Stale();
  switch (version->state) {
    case VersionState::kUnloaded:
    case VersionState::kLoadFailed:
      version->wanted_device = event.wanted_device;
      Want(context, *version);
      if (event.rehearse) {
        version->suspected = true;
        version->error = "is tried alone before it gets a device";
      }
      return;
    case VersionState::kUnloading:
      version->wanted_device = event.wanted_device;
      // The worker still holds the old copy. The version is loaded again when
      // it is gone.
      version->reload = true;
      context.Touch(*version);
      return;
    case VersionState::kLoading:
      if (!version->device && version->wanted_device != event.wanted_device) {
        version->wanted_device = event.wanted_device;
        context.Touch(*version);
        return;
      }
      context.Stale();
      return;
    case VersionState::kReady:
      context.Stale();
  }
}

void Apply(StepContext& context, const VersionUnloadRequested& event) {
  Version* version = context.edit.FindVersion(event.version);
  if (version == nullptr) return context.Stale();
  switch (version->state) {
    case VersionState::kLoading:
    case VersionState::kReady:
    case VersionState::kLoadFailed:
      BeginUnload(context, *version);
      return;
    case VersionState::kUnloading:
      version->reload = false;
      return;
    case VersionState::kUnloaded:
      context.Stale();
  }
}

void Apply(StepContext& context, const VersionDeleted& event) {
  const Version* version = context.edit.FindVersion(event.version);
  // A version with a device still has bytes booked there.
  if (version == nullptr || version->device) return context.Stale();
  context.Touch(*version);
  context.edit.RemoveVersion(event.version);
}

void Apply(StepContext& context, const VersionLoaded& event) {
  Version* version = LoadingVersion(context, event.version, event.load);
  if (version == nullptr) return context.Stale();
  // An unload may have been requested while the load was under way. Then the
  // copy that has just been loaded is unloaded at once.
  if (version->state == VersionState::kLoading) {
    VersionIsReady(context, *version);
    return;
  }
  version->load_sent = false;
  SendUnload(context, *version);
}

void Apply(StepContext& context, const VersionLoadFailed& event) {
  Version* version = LoadingVersion(context, event.version, event.load);
  if (version == nullptr) return context.Stale();
  version->load_sent = false;
  context.Touch(*version->device);
  if (absl::IsDeadlineExceeded(event.status)) {
    UndoUnansweredLoad(context, *version);
  }
  // The unload that was requested in the meantime has nothing to undo.
  if (version->state == VersionState::kUnloading) {
    VersionIsGone(context, *version);
    // The fault is the worker's and not the version's, so another try may
    // succeed.
  } else if (absl::IsUnavailable(event.status)) {
    VersionLostItsPlace(context, *version, kVersionRetryDelay);
  } else {
    context.edit.ReleaseVersion(*version);
    FailLoad(context, *version, std::string(event.status.message()));
  }
}

void Apply(StepContext& context, const VersionRehearsed& event) {
  Version* version = context.edit.FindVersion(event.version);
  if (version == nullptr || !version->rehearsal_sent ||
      version->load != event.load) {
    return context.Stale();
  }
  version->rehearsal_sent = false;
  if (!version->suspected) return;
  if (absl::IsUnavailable(event.status)) {
    version->retry_time = context.now + kVersionRetryDelay;
    context.Act(SetTimer{version->retry_time});
  } else if (event.status.ok()) {
    version->suspected = false;
    // Ends of workers stay the reason until the version is ready.
    if (version->worker_ends == 0) version->error.clear();
    context.Touch(*version);
  } else {
    GiveUpSuspect(context, *version, std::string(event.status.message()));
  }
}

void Apply(StepContext& context, const VersionUnloaded& event) {
  Device* device = context.edit.FindDevice(event.device);
  if (device == nullptr) return context.Stale();
  // The booking was a stray. The version itself may by now be elsewhere.
  if (context.edit.RemoveStray(*device, event.version)) {
    context.Touch(device->id);
    return context.Stale();
  }
  Version* version = context.edit.FindVersion(event.version);
  if (version == nullptr || version->device != event.device ||
      version->state != VersionState::kUnloading || version->load_sent) {
    return context.Stale();
  }
  VersionIsGone(context, *version);
}

void Apply(StepContext& context, const VersionDrained& event) {
  Version* version = context.edit.FindVersion(event.version);
  if (version == nullptr || version->state != VersionState::kUnloading ||
      version->load_sent || !version->device) {
    return context.Stale();
  }
  SendUnload(context, *version);
}

}  // namespace gpupool::scheduler
