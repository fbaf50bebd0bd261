#include "scheduler/state/state_editor.h"

#include <utility>

namespace gpupool::scheduler {
namespace {

// Takes over the bytes of a new plan. The thing must not be placed.
template <typename Thing>
void TakeNextBytes(Thing& thing) {
  thing.bytes = thing.next_bytes.value_or(thing.bytes);
  thing.next_bytes.reset();
}

// Returns the use of the device by one rank of the job.
TenantUsage::Use UseOf(const Job& job, const Device& device) {
  return {.tenant = job.tenant, .kind = device.kind, .bytes = job.bytes};
}

}  // namespace

Job* StateEditor::FindJob(JobId id) { return state_.jobs_.Find(id); }

Version* StateEditor::FindVersion(VersionId id) {
  auto it = state_.versions_.find(id);
  return it == state_.versions_.end() ? nullptr : &it->second;
}

Device* StateEditor::FindDevice(DeviceId id) {
  return state_.devices_.Find(id);
}

Job& StateEditor::AddJob(Job job) {
  const JobId id = job.id;
  job.queue = state_.queues_.NumberOf(job.queue_name);
  Job& added = state_.jobs_.Put(id, std::move(job));
  // Enqueue decides that anew from the array's places.
  added.over_limit = false;
  NoteTask(added);
  if (added.state == JobState::kQueued) Enqueue(added);
  if (added.wake_time != absl::InfiniteFuture()) {
    state_.wakes_.insert({added.wake_time, id});
  }
  for (JobId before : added.after_ok) state_.dependents_.insert({before, id});
  for (JobId before : added.after_any) state_.dependents_.insert({before, id});
  // The index of limits has no entry yet. FindLimit adds it.
  added.limit_time = absl::InfiniteFuture();
  NoteElastic(added);
  FindLimit(added);
  SettleArray(added.array);
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
  if (job->state == JobState::kQueued) Dequeue(*job);
  Unreserve(*job);
  for (JobId before : job->after_ok) state_.dependents_.erase({before, id});
  for (JobId before : job->after_any) state_.dependents_.erase({before, id});
  ForgetLimit(*job);
  state_.elastic_.erase(id);
  // An ended state makes NoteTask give up the task's place. Erase before
  // SettleArray, which looks at the jobs that are left.
  job->state = JobState::kCancelled;
  NoteTask(*job);
  const JobId array = job->array;
  state_.jobs_.Erase(id);
  SettleArray(array);
}

void StateEditor::RemoveVersion(VersionId id) {
  Version* version = FindVersion(id);
  if (version == nullptr) return;
  ReleaseVersion(*version);
  SetUnderLoad(*version, false);
  state_.versions_.erase(id);
}

void StateEditor::SetJobState(Job& job, JobState state) {
  // Dequeue looks at the state, so it comes before the change.
  if (job.state == JobState::kQueued) {
    Dequeue(job);
    job.held_devices.clear();
    Unreserve(job);
  }
  job.state = state;
  // It waits with its least number of devices again.
  if (job.elastic() && !IsLive(state)) {
    job.device_count = job.device_counts.front();
  }
  NoteTask(job);
  if (state == JobState::kQueued) Enqueue(job);
  NoteElastic(job);
  FindLimit(job);
  SettleArray(job.array);
}

void StateEditor::NoteElastic(Job& job) {
  if (job.elastic() && IsLive(job.state)) {
    state_.elastic_.insert(job.id);
    return;
  }
  state_.elastic_.erase(job.id);
  job.may_grow_since = absl::InfiniteFuture();
}

// Takes the job out of the queue and back, since the count is part of its
// shape. The same holds for the other setters with `queued`.
void StateEditor::SetDeviceCount(Job& job, uint32_t count) {
  if (job.device_count == count) return;
  const bool queued = job.state == JobState::kQueued;
  if (queued) Dequeue(job);
  job.device_count = count;
  if (queued) Enqueue(job);
}

void StateEditor::SetHeld(Job& job, bool held) {
  const bool queued = job.state == JobState::kQueued;
  if (queued) Dequeue(job);
  job.held = held;
  if (held) {
    job.held_devices.clear();
    Unreserve(job);
  }
  if (queued) Enqueue(job);
  SettleArray(job.array);
}

void StateEditor::SetTried(Job& job) {
  const bool queued = job.state == JobState::kQueued;
  if (queued) Dequeue(job);
  job.untried = false;
  if (queued) Enqueue(job);
  SettleArray(job.array);
}

void StateEditor::RemovePrerequisite(Job& job, JobId prerequisite) {
  const bool queued = job.state == JobState::kQueued;
  if (queued) Dequeue(job);
  job.after_ok.erase(prerequisite);
  job.after_any.erase(prerequisite);
  state_.dependents_.erase({prerequisite, job.id});
  if (queued) Enqueue(job);
  SettleArray(job.array);
}

void StateEditor::FindLimit(Job& job) { SetLimitTime(job, job.NextLimit()); }

void StateEditor::ForgetLimit(Job& job) {
  SetLimitTime(job, absl::InfiniteFuture());
}

void StateEditor::SetLimitTime(Job& job, absl::Time time) {
  // The old time is part of the key. It must not change before the erasure.
  state_.limits_.erase({job.limit_time, job.id});
  job.limit_time = time;
  if (time != absl::InfiniteFuture()) state_.limits_.insert({time, job.id});
}

void StateEditor::StartClock(Job& job, absl::Time now) {
  if (job.run_since != absl::InfiniteFuture()) return;
  job.run_since = now;
  NoteStandingChange(job, now);
  FindLimit(job);
}

void StateEditor::StopClock(Job& job, absl::Time now) {
  if (job.run_since == absl::InfiniteFuture()) return;
  state_.standing_changes_.erase({job.standing_change, job.id});
  // Attained needs `run_since`, so this line comes before the reset.
  job.attained = job.Attained(now);
  job.run_since = absl::InfiniteFuture();
  FindLimit(job);
}

void StateEditor::NoteStandingChange(Job& job, absl::Time now) {
  state_.standing_changes_.erase({job.standing_change, job.id});
  if (job.state != JobState::kQueued) {
    job.standing = StandingOf(state_.QueueOf(job), state_.history_, job, now);
  }
  job.standing_change = NextStandingChange(state_.QueueOf(job), job, now);
  if (job.standing_change == absl::InfiniteFuture()) return;
  state_.standing_changes_.insert({job.standing_change, job.id});
}

void StateEditor::LearnRunTime(const Job& job) {
  state_.history_.Add(job.attained);
}

void StateEditor::LearnNeed(const Job& job) {
  state_.LearnNeed(
      {job.wanted_device, job.device_count, job.bytes, job.demands.host});
}

void StateEditor::SetExpectedRun(Job& job, absl::Duration expected,
                                 absl::Time now) {
  const bool queued = job.state == JobState::kQueued;
  if (queued) Dequeue(job);
  job.expected_run = expected;
  if (queued) Enqueue(job);
  NoteStandingChange(job, now);
  if (!IsLive(job.state)) FindLimit(job);
}

void StateEditor::Reserve(Job& job, std::vector<DeviceId> devices) {
  Unreserve(job);
  for (DeviceId id : devices) FindDevice(id)->reserved_for = job.id;
  job.reserved_devices = std::move(devices);
  state_.reserving_.insert(job.id);
}

void StateEditor::Unreserve(Job& job) {
  for (DeviceId id : job.reserved_devices) FindDevice(id)->reserved_for.reset();
  job.reserved_devices.clear();
  state_.reserving_.erase(job.id);
}

// Remembers the earliest pending timer only. That is enough: whoever still
// needs a later one asks again in the step of the earlier one.
bool StateEditor::ArmTimer(absl::Time time) {
  if (time >= state_.armed_timer_) return false;
  state_.armed_timer_ = time;
  return true;
}

void StateEditor::TimerHasFired(absl::Time now) {
  if (state_.armed_timer_ <= now) state_.armed_timer_ = absl::InfiniteFuture();
}

void StateEditor::SetWakeTime(Job& job, absl::Time time) {
  state_.wakes_.erase({job.wake_time, job.id});
  job.wake_time = time;
  if (time != absl::InfiniteFuture()) state_.wakes_.insert({time, job.id});
}

void StateEditor::PlaceJob(Job& job, Ranks ranks) {
  job.ranks = std::move(ranks);
  // Ranks are counted as settling only while another rank of the job holds a
  // device. Settle takes them all back when the last one ends.
  const bool settles = job.HoldsDevices();
  for (const Rank& rank : job.ranks) {
    Device* device = FindDevice(rank.device);
    if (device == nullptr) continue;
    // The rank was restored as ended while others still hold devices.
    if (rank.end) {
      if (settles) ++device->settling;
      continue;
    }
    device->jobs.insert(job.id);
    device->gangs += job.device_count > 1;
    device->job_bytes += BytesOn(job, *device);
    HostNeed& used = state_.machines_[device->machine].used;
    used.milli_cores += job.demands.host.milli_cores;
    used.bytes += job.demands.host.bytes;
    state_.queues_.Take(job.queue);
    state_.usage_.Take(UseOf(job, *device), state_.now_,
                       state_.policy_.usage_half_life);
  }
  if (!job.ranks.empty()) state_.queues_.CountRunning(job.queue, 1);
  NoteSaving(job);
}

void StateEditor::EndRank(Job& job, DeviceId device, Outcome outcome) {
  for (Rank& rank : job.ranks) {
    if (rank.device != device || (rank.end && !rank.saves())) continue;
    // A rank that saves ends twice: when it leaves its device, and when its
    // checkpoint is on disk. The second end replaces the outcome.
    const bool held = !std::exchange(rank.end, outcome).has_value();
    rank.missing = false;
    if (held) {
      GiveBack(job, rank);
      // Counted before Settle, which takes all of the job's ranks back at once.
      ++FindDevice(device)->settling;
      if (!job.HoldsDevices()) Settle(job);
    }
    break;
  }
  NoteSaving(job);
}

void StateEditor::Settle(const Job& job) {
  for (const Rank& rank : job.ranks) {
    if (rank.end) --FindDevice(rank.device)->settling;
  }
}

void StateEditor::NoteSaving(const Job& job) {
  if (job.Saves()) {
    state_.saving_.insert(job.id);
  } else {
    state_.saving_.erase(job.id);
  }
}

void StateEditor::SetMissing(Job& job, DeviceId device, bool missing) {
  for (Rank& rank : job.ranks) {
    if (rank.device != device || (rank.end && !rank.saves())) continue;
    rank.missing = missing;
  }
}

// Takes back all that PlaceJob books for one rank. The two must name the same
// counters.
void StateEditor::GiveBack(const Job& job, const Rank& rank) {
  Device* device = FindDevice(rank.device);
  device->jobs.erase(job.id);
  device->gangs -= job.device_count > 1;
  device->job_bytes -= BytesOn(job, *device);
  HostNeed& used = state_.machines_[device->machine].used;
  used.milli_cores -= job.demands.host.milli_cores;
  used.bytes -= job.demands.host.bytes;
  state_.queues_.GiveBack(job.queue);
  state_.usage_.GiveBack(UseOf(job, *device), state_.now_,
                         state_.policy_.usage_half_life);
}

void StateEditor::ReleaseJob(Job& job) {
  if (job.ranks.empty()) return;
  // Settle was already called if no rank holds a device.
  if (job.HoldsDevices()) Settle(job);
  for (const Rank& rank : job.ranks) {
    if (!rank.end) GiveBack(job, rank);
  }
  state_.queues_.CountRunning(job.queue, -1);
  job.ranks.clear();
  NoteSaving(job);
  // The bookings above were made with the old bytes, so TakeNextBytes comes
  // last.
  job.interruption.reset();
  job.spared = false;
  TakeNextBytes(job);
}

void StateEditor::SetUnderLoad(Version& version, bool under_load) {
  version.under_load = under_load;
  if (under_load) {
    state_.under_load_.insert(version.id);
  } else {
    state_.under_load_.erase(version.id);
  }
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
  // The old bytes are given back before a new plan replaces them.
  device->version_bytes -= version.bytes;
  version.device.reset();
  TakeNextBytes(version);
}

void StateEditor::SetBytes(Job& job, uint64_t bytes) {
  const bool queued = job.state == JobState::kQueued;
  if (queued) Dequeue(job);
  job.next_bytes = bytes;
  if (job.ranks.empty()) TakeNextBytes(job);
  if (queued) Enqueue(job);
}

void StateEditor::SetBytes(Version& version, uint64_t bytes) {
  version.next_bytes = bytes;
  if (!version.device) TakeNextBytes(version);
}

void StateEditor::SetLimit(Device& device, uint64_t full_bytes,
                           double fraction) {
  state_.usage_.AddCapacity(device.kind, 0,
                            // The difference is negative when a worker reports
                            // less memory than before.
                            static_cast<int64_t>(full_bytes) -
                                static_cast<int64_t>(device.full_bytes));
  device.full_bytes = full_bytes;
  device.fraction = fraction;
  device.limit_bytes = ShareOf(full_bytes, fraction);
  // Exclusive jobs hold all usable bytes, so their booking follows the limit.
  device.job_bytes = 0;
  for (JobId id : device.jobs) {
    device.job_bytes += BytesOn(state_.jobs_.at(id), device);
  }
}

void StateEditor::SetCoolsUntil(Device& device, absl::Time time) {
  // The old time is part of the key.
  state_.cooling_.erase({device.cools_until, device.id});
  device.cools_until = time;
  if (device.cools()) state_.cooling_.insert({time, device.id});
}

void StateEditor::AddStray(Device& device, AttemptRef attempt, uint64_t bytes) {
  // A stray that is reported twice counts once.
  if (device.stray_attempts.emplace(attempt, bytes).second) {
    device.stray_bytes += bytes;
    state_.strays_.insert({attempt, device.id});
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
  state_.strays_.erase({attempt, device.id});
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
  for (const auto& [attempt, bytes] : device.stray_attempts) {
    state_.strays_.erase({attempt, device.id});
  }
  device.stray_attempts.clear();
  device.stray_versions.clear();
  device.stray_bytes = 0;
}

void StateEditor::SetDrain(Device& device, std::optional<DeviceDrain> drain) {
  device.drain = std::move(drain);
  if (device.drain) {
    state_.drained_.insert(device.id);
  } else {
    state_.drained_.erase(device.id);
  }
}

void StateEditor::SetDraining(bool stop) {
  state_.draining_ = true;
  state_.stopping_ = state_.stopping_ || stop;
}

}  // namespace gpupool::scheduler
