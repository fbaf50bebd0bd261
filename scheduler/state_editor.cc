#include "scheduler/state_editor.h"

#include <utility>

namespace gpupool::scheduler {
namespace {

// Of a job or version that is not placed.
template <typename Thing>
void TakeNextBytes(Thing& thing) {
  thing.bytes = thing.next_bytes.value_or(thing.bytes);
  thing.next_bytes.reset();
}

}  // namespace

Job* StateEditor::FindJob(JobId id) {
  auto it = state_.jobs_.find(id);
  return it == state_.jobs_.end() ? nullptr : &it->second;
}

Version* StateEditor::FindVersion(VersionId id) {
  auto it = state_.versions_.find(id);
  return it == state_.versions_.end() ? nullptr : &it->second;
}

Device* StateEditor::FindDevice(DeviceId id) {
  auto it = state_.devices_.find(id);
  return it == state_.devices_.end() ? nullptr : &it->second;
}

Job& StateEditor::AddJob(Job job) {
  const JobId id = job.id;
  Job& added = state_.jobs_[id];
  added = std::move(job);
  if (added.state == JobState::kQueued) {
    state_.queue_.insert({added.priority, id});
  }
  if (added.wake_time != absl::InfiniteFuture()) {
    state_.wakes_.insert({added.wake_time, id});
  }
  return added;
}

Version& StateEditor::AddVersion(Version version) {
  Version& added = state_.versions_[version.id];
  added = std::move(version);
  return added;
}

void StateEditor::RemoveJob(JobId id) {
  Job* job = FindJob(id);
  if (job == nullptr) return;
  ReleaseJob(*job);
  SetWakeTime(*job, absl::InfiniteFuture());
  state_.queue_.erase({job->priority, id});
  state_.jobs_.erase(id);
}

void StateEditor::RemoveVersion(VersionId id) {
  Version* version = FindVersion(id);
  if (version == nullptr) return;
  ReleaseVersion(*version);
  state_.versions_.erase(id);
}

void StateEditor::SetJobState(Job& job, JobState state) {
  if (job.state == JobState::kQueued) {
    state_.queue_.erase({job.priority, job.id});
    job.held_devices.clear();
  }
  job.state = state;
  if (state == JobState::kQueued) {
    state_.queue_.insert({job.priority, job.id});
  }
}

void StateEditor::SetWakeTime(Job& job, absl::Time time) {
  state_.wakes_.erase({job.wake_time, job.id});
  job.wake_time = time;
  if (time != absl::InfiniteFuture()) state_.wakes_.insert({time, job.id});
}

void StateEditor::PlaceJob(Job& job, std::vector<Rank> ranks) {
  for (const Rank& rank : ranks) {
    Device* device = FindDevice(rank.device);
    if (device == nullptr || rank.end) continue;
    device->jobs.insert(job.id);
    device->job_bytes += job.bytes;
  }
  job.ranks = std::move(ranks);
}

void StateEditor::EndRank(Job& job, DeviceId device, Outcome outcome) {
  for (Rank& rank : job.ranks) {
    if (rank.device != device || rank.end) continue;
    GiveBack(job, rank);
    rank.end = outcome;
    rank.missing = false;
    return;
  }
}

void StateEditor::SetMissing(Job& job, DeviceId device, bool missing) {
  for (Rank& rank : job.ranks) {
    if (rank.device == device && !rank.end) rank.missing = missing;
  }
}

void StateEditor::GiveBack(const Job& job, const Rank& rank) {
  Device* device = FindDevice(rank.device);
  device->jobs.erase(job.id);
  device->job_bytes -= job.bytes;
}

void StateEditor::ReleaseJob(Job& job) {
  if (job.ranks.empty()) return;
  for (const Rank& rank : job.ranks) {
    if (!rank.end) GiveBack(job, rank);
  }
  job.ranks.clear();
  job.interruption.reset();
  TakeNextBytes(job);
}

void StateEditor::PlaceVersion(Version& version, DeviceId device) {
  Device* target = FindDevice(device);
  if (target == nullptr) return;
  version.device = device;
  target->versions.insert(version.id);
  target->version_bytes += version.bytes;
}

void StateEditor::ReleaseVersion(Version& version) {
  if (!version.device) return;
  Device* device = FindDevice(*version.device);
  device->versions.erase(version.id);
  device->version_bytes -= version.bytes;
  version.device.reset();
  TakeNextBytes(version);
}

void StateEditor::SetBytes(Job& job, uint64_t bytes) {
  job.next_bytes = bytes;
  if (job.ranks.empty()) TakeNextBytes(job);
}

void StateEditor::SetBytes(Version& version, uint64_t bytes) {
  version.next_bytes = bytes;
  if (!version.device) TakeNextBytes(version);
}

void StateEditor::SetLimit(Device& device, uint64_t full_bytes,
                           double fraction) {
  device.full_bytes = full_bytes;
  device.fraction = fraction;
  device.limit_bytes = ShareOf(full_bytes, fraction);
}

void StateEditor::AddStray(Device& device, AttemptRef attempt, uint64_t bytes) {
  if (device.stray_attempts.emplace(attempt, bytes).second) {
    device.stray_bytes += bytes;
  }
}

void StateEditor::AddStray(Device& device, VersionId version, uint64_t bytes) {
  if (device.stray_versions.emplace(version, bytes).second) {
    device.stray_bytes += bytes;
  }
}

bool StateEditor::RemoveStray(Device& device, AttemptRef attempt) {
  auto it = device.stray_attempts.find(attempt);
  if (it == device.stray_attempts.end()) return false;
  device.stray_bytes -= it->second;
  device.stray_attempts.erase(it);
  return true;
}

bool StateEditor::RemoveStray(Device& device, VersionId version) {
  auto it = device.stray_versions.find(version);
  if (it == device.stray_versions.end()) return false;
  device.stray_bytes -= it->second;
  device.stray_versions.erase(it);
  return true;
}

void StateEditor::ClearStrays(Device& device) {
  device.stray_attempts.clear();
  device.stray_versions.clear();
  device.stray_bytes = 0;
}

void StateEditor::SetDraining(bool stop) {
  state_.draining_ = true;
  state_.stopping_ = state_.stopping_ || stop;
}

}  // namespace gpupool::scheduler
