#include "scheduler/step/job_invariants.h"

#include "absl/strings/str_cat.h"
#include "scheduler/state/device_choice.h"

namespace gpupool::scheduler {
namespace {

absl::Status CheckRanks(const State& state, const Job& job) {
  const uint64_t id = job.id.value();
  // Every live job has ranks, and no other job has any.
  if (IsLive(job.state) == job.ranks.empty()) {
    return Broken("job ", id, " is ", ToString(job.state), " but ",
                  job.ranks.empty() ? "has no device" : "has a device");
  }
  if (job.ranks.empty()) {
    if (!job.interruption) return absl::OkStatus();
    return Broken("job ", id, " is being broken up without running");
  }
  if (job.ranks.size() != job.device_count) {
    return Broken("job ", id, " has ", job.ranks.size(), " ranks, it needs ",
                  job.device_count);
  }
  absl::btree_set<DeviceId> devices;
  absl::btree_set<std::string> kinds;
  size_t live = 0;
  for (const Rank& rank : job.ranks) {
    const Device* device = state.FindDevice(rank.device);
    if (device == nullptr || device->jobs.contains(job.id) == !!rank.end) {
      return Broken("job ", id, " is not in its device's list");
    }
    if (!TakesDevice(job.wanted_device, device->name, device->kind)) {
      return Broken("job ", id, " is on ", device->name, " and wants ",
                    job.wanted_device);
    }
    devices.insert(rank.device);
    kinds.insert(device->kind);
    // The job waits for the checkpoint of an ended rank, unless it is being
    // cancelled.
    const bool waits = rank.saves() && job.state != JobState::kCancelling;
    if (!rank.end || waits) ++live;
  }
  if (devices.size() != job.ranks.size() || kinds.size() != 1) {
    return Broken("job ", id, " has ", job.ranks.size(), " ranks on ",
                  devices.size(), " devices of ", kinds.size(), " kinds");
  }
  if (live == 0) return Broken("job ", id, " goes on after its last rank");
  return absl::OkStatus();
}

absl::Status CheckTask(const State& state, const Job& job) {
  const uint64_t id = job.id.value();
  const auto array = state.arrays().find(job.array);
  if (array == state.arrays().end()) {
    // An array is forgotten when its last task has ended. Its ended tasks keep
    // its id.
    if ((job.array == JobId() || IsEnded(job.state)) && !job.over_limit) {
      return absl::OkStatus();
    }
    return Broken("job ", id, " is a task of array ", job.array.value(),
                  ", which is not known");
  }
  const ArrayTasks& tasks = array->second;
  if (tasks.unended.contains(job.id) == IsEnded(job.state) ||
      tasks.live.contains(job.id) != IsLive(job.state) ||
      tasks.queued.contains(job.id) != job.MayStart() ||
      tasks.standing.contains(job.id) != job.over_limit ||
      (job.over_limit && !job.MayStartButForLimit())) {
    return Broken("job ", id, " is ", ToString(job.state),
                  " and not counted so in array ", job.array.value());
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckJob(const State& state, const Job& job) {
  const uint64_t id = job.id.value();
  if (absl::Status ranks = CheckRanks(state, job); !ranks.ok()) return ranks;
  const bool queued = state.queue().contains(KeyOf(job));
  if (queued != job.MayStart()) {
    return Broken("job ", id, " is ", ToString(job.state),
                  job.MayStart() ? ", may start" : ", may not start", " and ",
                  queued ? "in" : "not in", " the queue");
  }
  const bool is_aside = job.state == JobState::kQueued && !job.MayStart();
  if (is_aside != state.aside().contains(job.id)) {
    return Broken("job ", id, is_aside ? " does not stand" : " stands",
                  " aside");
  }
  for (const auto* jobs : {&job.after_ok, &job.after_any}) {
    for (JobId before : *jobs) {
      const Job* found = state.FindJob(before);
      const bool is_there = (found != nullptr && !IsEnded(found->state)) ||
                            state.arrays().contains(before);
      if (is_there && state.dependents().contains({before, job.id})) {
        continue;
      }
      return Broken("job ", id, " waits for job ", before.value(),
                    ", which will not tell it");
    }
  }
  const bool waits = !job.after_ok.empty() || !job.after_any.empty();
  // The conditions on a start are met before the first attempt and never come
  // back.
  if ((waits || job.untried) && job.attempt > 0) {
    return Broken("job ", id, " ran before what it waits for");
  }
  if (job.held && (!job.held_devices.empty() || !job.reserved_devices.empty()))
    return Broken("job ", id, " is held and holds a device");
  if (!IsEnded(job.state) && job.failures >= job.max_attempts) {
    return Broken("job ", id, " goes on after ", job.failures, " failures");
  }
  if (job.failures > job.attempt) {
    return Broken("job ", id, " failed more often than it was started");
  }
  const bool sleeps = job.wake_time != absl::InfiniteFuture();
  if (job.state == JobState::kBackingOff && !sleeps) {
    return Broken("job ", id, " backs off for ever");
  }
  if (sleeps && job.state != JobState::kBackingOff && !IsLive(job.state)) {
    return Broken("job ", id, " is ", ToString(job.state), " with a timer");
  }
  if (!job.held_devices.empty() && job.state != JobState::kQueued) {
    return Broken("job ", id, " holds a device without being queued");
  }
  if (!job.reserved_devices.empty() && job.state != JobState::kQueued) {
    return Broken("job ", id, " reserves a device without being queued");
  }
  if (job.run_since != absl::InfiniteFuture()) {
    if (job.state != JobState::kRunning && job.state != JobState::kCancelling) {
      return Broken("job ", id, " is ", ToString(job.state),
                    ", its clock runs");
    }
    if (!job.HoldsDevices()) {
      return Broken("job ", id, " holds no device, its clock runs");
    }
  }
  if (state.elastic().contains(job.id) !=
      (job.elastic() && IsLive(job.state))) {
    return Broken("job ", id, " is not where live elastic ones are");
  }
  if (state.saving().contains(job.id) != job.Saves()) {
    return Broken("job ", id, " is not where those are that save");
  }
  return CheckTask(state, job);
}

absl::Status CheckArray(JobId id, const ArrayTasks& tasks) {
  if (tasks.unended.empty()) {
    return Broken("array ", id.value(), " is kept without tasks");
  }
  if (tasks.at_once > 0 &&
      tasks.live.size() + tasks.queued.size() > tasks.at_once) {
    return Broken("array ", id.value(), " has ", tasks.live.size(),
                  " live tasks and ", tasks.queued.size(),
                  " in the queue; at most ", tasks.at_once, " are allowed");
  }
  if (tasks.HasPlace() && !tasks.standing.empty()) {
    return Broken("array ", id.value(), " has a place that no task takes");
  }
  return absl::OkStatus();
}

}  // namespace gpupool::scheduler
