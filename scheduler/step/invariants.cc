#include "scheduler/step/invariants.h"

#include <algorithm>

#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "scheduler/state/device_choice.h"
#include "scheduler/step/job_invariants.h"

namespace gpupool::scheduler {
namespace {

absl::Status CheckVersion(const State& state, const Version& version) {
  const uint64_t id = version.id.value();
  const bool must = version.state == VersionState::kReady ||
                    version.state == VersionState::kUnloading;
  if (must && !version.device) {
    return Broken("version ", id, " is ", ToString(version.state),
                  " without a device");
  }
  if (version.device && !MayHoldBytes(version.state)) {
    return Broken("version ", id, " is ", ToString(version.state),
                  " but has a device");
  }
  // A suspect is rehearsed first. Until that succeeds, no device may hold it.
  if (version.suspected &&
      (version.device || version.state != VersionState::kLoading)) {
    return Broken("version ", id, " is suspected but not waiting for a place");
  }
  if (version.load_sent && !version.device) {
    return Broken("version ", id, " waits for a load without a device");
  }
  if (version.under_load != state.under_load().contains(version.id)) {
    return Broken("version ", id, " is not where those under load are");
  }
  if (!version.device) return absl::OkStatus();
  const Device* device = state.FindDevice(*version.device);
  if (device == nullptr || !device->versions.contains(version.id)) {
    return Broken("version ", id, " is not in its device's list");
  }
  // A version that unloads may already be wanted elsewhere.
  if (version.state != VersionState::kUnloading &&
      !TakesDevice(version.wanted_device, device->name, device->kind)) {
    return Broken("version ", id, " is on ", device->name, " and wants ",
                  version.wanted_device);
  }
  return absl::OkStatus();
}

absl::Status CheckStrays(const State& state, const Device& device) {
  uint64_t bytes = 0;
  for (const auto& [attempt, size] : device.stray_attempts) {
    bytes += size;
    if (!state.IsLiveAttempt(attempt)) continue;
    // A live attempt may be a stray only where its own rank has ended.
    const Rank* rank = state.FindJob(attempt.job)->FindRank(device.id);
    if (rank == nullptr || !rank->end) {
      return Broken("job ", attempt.job.value(), " attempt ", attempt.number,
                    " is live and a stray on ", device.name);
    }
  }
  for (const auto& [version, size] : device.stray_versions) bytes += size;
  if (bytes != device.stray_bytes) {
    return Broken(device.name, " counts ", device.stray_bytes,
                  " stray bytes, there are ", bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckSums(const State& state, const Device& device) {
  uint64_t job_bytes = 0;
  uint32_t gangs = 0;
  for (JobId id : device.jobs) {
    const Job* job = state.FindJob(id);
    if (job == nullptr || !job->RunsOn(device.id)) {
      return Broken(device.name, " lists job ", id.value(),
                    " that is not there");
    }
    job_bytes += BytesOn(*job, device);
    // The loop visits jobs of this device, so the sum is at least 1.
    const size_t others = device.jobs.size() + device.versions.size() - 1;
    if (job->demands.exclusive && others > 0) {
      return Broken("job ", id.value(), " is exclusive and shares ",
                    device.name, " with ", others, " others");
    }
    if (job->device_count > 1) ++gangs;
  }
  if (gangs > 1) {
    return Broken(device.name, " has ", gangs, " jobs on several devices");
  }
  if (gangs != device.gangs) {
    return Broken(device.name, " counts ", device.gangs,
                  " jobs on several devices, there are ", gangs);
  }
  uint64_t version_bytes = 0;
  // The counts below are kept by increments. A lost update shows as a
  // difference to the sums that are formed here.
  for (VersionId id : device.versions) {
    const Version* version = state.FindVersion(id);
    if (version == nullptr || version->device != device.id) {
      return Broken(device.name, " lists version ", id.value(),
                    " that is not there");
    }
    version_bytes += version->bytes;
  }
  if (job_bytes != device.job_bytes || version_bytes != device.version_bytes) {
    return Broken(device.name, " counts ", device.job_bytes, " + ",
                  device.version_bytes, " bytes, there are ", job_bytes, " + ",
                  version_bytes);
  }
  return absl::OkStatus();
}

absl::Status CheckDevice(const State& state, const Device& device,
                         bool restoring) {
  if (absl::Status sums = CheckSums(state, device); !sums.ok()) return sums;
  const uint64_t placed = device.job_bytes + device.version_bytes;
  if (placed > device.limit_bytes) {
    return Broken(device.name, " has ", placed, " bytes placed, its limit is ",
                  device.limit_bytes);
  }
  if (device.reserved_for) {
    const Job* job = state.FindJob(*device.reserved_for);
    if (job == nullptr ||
        std::count(job->reserved_devices.begin(), job->reserved_devices.end(),
                   device.id) != 1) {
      return Broken(device.name, " is reserved for job ",
                    device.reserved_for->value(), " that does not know it");
    }
  }
  // After a restart the rows place jobs on devices before their workers have
  // said hello. That is why `restoring` allows it.
  const bool holds = !device.jobs.empty() || !device.versions.empty() ||
                     device.stray_bytes > 0;
  if (!device.ready && holds && !restoring) {
    return Broken(device.name, " holds something without a worker");
  }
  return CheckStrays(state, device);
}

absl::Status CheckShapes(const State& state, size_t queued) {
  const WaitingJobs& waiting = state.waiting();
  size_t in_shapes = 0;
  // Each queued job is in the list of exactly one shape.
  for (const auto& [shape, keys] : waiting.shapes()) in_shapes += keys.size();
  if (in_shapes != queued) {
    return Broken("the queue's shapes have ", in_shapes, " entries for ",
                  queued, " queued jobs");
  }
  size_t heads = 0;
  for (const auto& [group, of_group] : waiting.heads()) {
    heads += of_group.size();
    for (const auto& [key, shape] : of_group) {
      if (shape->second.empty() || !(*shape->second.begin() == key)) {
        return Broken("job ", key.job.value(), " is not first of its shape");
      }
      if (state.GroupOf(state.jobs().at(key.job)) != group) {
        return Broken("job ", key.job.value(), " is in the group ", group.queue,
                      "/", group.tenant);
      }
    }
  }
  if (heads != waiting.shapes().size()) {
    return Broken(waiting.shapes().size(), " shapes have ", heads, " heads");
  }
  return absl::OkStatus();
}

absl::Status CheckHosts(const State& state) {
  std::vector<HostNeed> used(state.machines().size());
  for (const auto& [id, job] : state.jobs()) {
    for (const Rank& rank : job.ranks) {
      // A rank that has ended gave its share of the host back.
      if (rank.end) continue;
      HostNeed& there = used[state.devices().at(rank.device).machine];
      there.milli_cores += job.demands.host.milli_cores;
      there.bytes += job.demands.host.bytes;
    }
  }
  for (size_t i = 0; i < used.size(); ++i) {
    if (used[i] == state.machines()[i].used) continue;
    return Broken("machine ", state.machines()[i].node,
                  " counts other host cores or bytes than its ranks have");
  }
  return absl::OkStatus();
}

absl::Status CheckQueues(const State& state) {
  struct Sum {
    uint64_t waiting = 0;
    uint64_t running = 0;
    uint32_t devices = 0;
  };
  std::vector<Sum> sums(state.queues().size());
  for (const auto& [id, job] : state.jobs()) {
    if (job.queue != state.queues().NumberOf(job.queue_name)) {
      return Broken("job ", id.value(), " is in queue ", job.queue);
    }
    Sum& sum = sums[job.queue];
    sum.waiting += job.state == JobState::kQueued;
    // A job counts as running until its last rank has ended. A rank holds a
    // device only until its own end.
    sum.running += !job.ranks.empty();
    for (const Rank& rank : job.ranks) sum.devices += !rank.end;
  }
  for (uint32_t i = 0; i < sums.size(); ++i) {
    const Queues::Entry& entry = state.queues().at(i);
    if (entry.waiting_jobs == sums[i].waiting &&
        entry.running_jobs == sums[i].running &&
        entry.held_devices == sums[i].devices) {
      continue;
    }
    return Broken("queue ", entry.queue.name, " counts ", entry.waiting_jobs,
                  " waiting and ", entry.running_jobs, " running jobs on ",
                  entry.held_devices, " devices, there are ", sums[i].waiting,
                  ", ", sums[i].running, " and ", sums[i].devices);
  }
  return absl::OkStatus();
}

absl::Status CheckReservations(const State& state, const Device& device) {
  const TenantReservation* last = nullptr;
  // The reservations of a device are sorted by start. If any two overlap, then
  // two neighbours do.
  for (const TenantReservation* next : state.reservations().Of(device.id)) {
    if (last != nullptr && next->start < last->end) {
      return Broken(device.name, " is reserved as '", last->name, "' and '",
                    next->name, "' at a time");
    }
    last = next;
  }
  const TenantReservation* present =
      state.reservations().At(device.id, state.now());
  if (present == nullptr) return absl::OkStatus();
  for (JobId id : device.jobs) {
    const Job& job = state.jobs().at(id);
    // A job of another tenant may finish its stop after the reservation has
    // begun.
    if (present->Takes(job.tenant) || IsStopping(job)) continue;
    return Broken("job ", id.value(), " of ", job.tenant, " goes on on ",
                  device.name, ", which is reserved for ", present->tenant);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckInvariants(const State& state, bool restoring) {
  size_t queued = 0;
  for (const auto& [id, job] : state.jobs()) {
    if (absl::Status status = CheckJob(state, job); !status.ok()) {
      return status;
    }
    if (job.MayStart()) ++queued;
  }
  for (const auto& [id, tasks] : state.arrays()) {
    if (absl::Status status = CheckArray(id, tasks); !status.ok()) {
      return status;
    }
  }
  // CheckJob finds the entry of each queued job. Equal sizes then prove that
  // the queue has no other entries.
  if (queued != state.queue().size()) {
    return Broken("the queue has ", state.queue().size(), " entries for ",
                  queued, " queued jobs");
  }
  // An attempt settles between the end of its own rank and the moment when its
  // job holds no device any more.
  absl::btree_map<DeviceId, uint32_t> settling;
  for (const auto& [id, job] : state.jobs()) {
    if (!job.HoldsDevices()) continue;
    for (const Rank& rank : job.ranks) settling[rank.device] += !!rank.end;
  }
  for (const auto& [id, device] : state.devices()) {
    if (device.settling == settling[id]) continue;
    return Broken(device.name, " counts ", device.settling,
                  " attempts that are ending, there are ", settling[id]);
  }
  if (absl::Status status = CheckHosts(state); !status.ok()) return status;
  if (absl::Status status = CheckShapes(state, queued); !status.ok()) {
    return status;
  }
  for (const auto& [id, version] : state.versions()) {
    if (absl::Status status = CheckVersion(state, version); !status.ok()) {
      return status;
    }
  }
  for (const auto& [id, device] : state.devices()) {
    if (absl::Status status = CheckDevice(state, device, restoring);
        !status.ok()) {
      return status;
    }
    if (absl::Status status = CheckReservations(state, device); !status.ok()) {
      return status;
    }
  }
  return CheckQueues(state);
}

absl::Status CheckChange(const JobChange& change) {
  const JobState from = change.from;
  const JobState to = change.to;
  const bool waits = from == JobState::kQueued || from == JobState::kBackingOff;
  bool legal = false;
  switch (to) {
    case JobState::kQueued:
      legal = from == JobState::kBackingOff || from == JobState::kStarting ||
              from == JobState::kRunning;
      break;
    case JobState::kStarting:
      legal = from == JobState::kQueued;
      break;
    case JobState::kRunning:
      legal = waits || from == JobState::kStarting;
      break;
    case JobState::kBackingOff:
      legal = from == JobState::kStarting || from == JobState::kRunning;
      break;
    case JobState::kCancelling:
      legal = from == JobState::kStarting || from == JobState::kRunning;
      break;
    case JobState::kSucceeded:
    case JobState::kFailed:
      // A job that is being cancelled ends as cancelled, however its attempt
      // ends.
      legal = !IsEnded(from) && from != JobState::kCancelling;
      break;
    case JobState::kCancelled:
      legal = waits || from == JobState::kCancelling;
      break;
  }
  if (legal) return absl::OkStatus();
  return Broken("job ", change.job.value(), " went from ", ToString(from),
                " to ", ToString(to));
}

}  // namespace gpupool::scheduler
