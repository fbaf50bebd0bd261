#include "scheduler/yield/serving_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/place/obstacle.h"

namespace gpupool::scheduler {
namespace {

// Returns the end of the minimum run; InfiniteFuture before the job runs.
absl::Time MinRunEnd(const State& state, const Job& job) {
  if (job.state != JobState::kRunning) return absl::InfiniteFuture();
  return job.run_since + state.QueueOf(job).min_run;
}

// Returns false when no running job can be in its minimum run.
bool AnyMinRun(const Queues& queues) {
  for (uint32_t i = 0; i < queues.size(); ++i) {
    if (queues.at(i).queue.min_run > absl::ZeroDuration()) return true;
  }
  return false;
}

bool MayYield(const State& state, const Job& job, absl::Time now) {
  return !IsStopping(job) && MinRunEnd(state, job) <= now;
}

// Sorts jobs in the order in which they must leave: lowest rank of the queue,
// then lowest priority, then latest start.
void SortVictims(const State& state, std::vector<const Job*>& jobs) {
  std::sort(jobs.begin(), jobs.end(), [&](const Job* a, const Job* b) {
    if (state.queues().IsAbove(a->queue, b->queue)) return false;
    if (state.queues().IsAbove(b->queue, a->queue)) return true;
    if (a->priority != b->priority) return a->priority < b->priority;
    if (a->run_since != b->run_since) return a->run_since > b->run_since;
    return a->id > b->id;
  });
}

// Returns whether the job still fits somewhere beside all served versions, with
// `version` on `place`.
bool StillFits(const State& state, const Job& job, const Version& version,
               DeviceId place) {
  const Need need = NeedOf(state, job);
  const uint32_t least =
      job.elastic() ? job.device_counts.front() : job.device_count;
  std::vector<uint32_t> sites(state.sites());
  std::vector<uint32_t> enough(state.sites());
  absl::btree_map<absl::string_view, uint32_t> kinds;
  uint32_t largest_site = 0;
  for (const auto& [id, device] : state.devices()) {
    if (!DeviceMatches(device, need)) continue;
    largest_site = std::max(largest_site, ++sites[device.site]);
    Meanwhile until = WhenEmptied(device);
    until.reservation_over = true;
    if (id == place)
      until.returned_bytes -= static_cast<int64_t>(version.bytes);
    if (ObstacleFor(state, device, need, until)) continue;
    ++enough[device.site];
    ++kinds[device.kind];
  }
  if (least <= largest_site) {
    return std::any_of(enough.begin(), enough.end(),
                       [&](uint32_t count) { return count >= least; });
  }
  return std::any_of(kinds.begin(), kinds.end(),
                     [&](const auto& kind) { return kind.second >= least; });
}

// Returns room on the device, or nothing when training cannot free the bytes.
std::optional<VersionRoom> VersionRoomOn(const State& state,
                                         const Device& device,
                                         const Version& version,
                                         absl::Time now) {
  const Need need = NeedOf(state, version);
  Meanwhile until = WhenSettled(device);
  std::vector<const Job*> jobs;
  for (JobId id : device.jobs) {
    const Job& job = state.jobs().at(id);
    if (IsStopping(job)) {
      until.Leave(job, device);
    } else if (MayYield(state, job, now) &&
               StillFits(state, job, version, device.id)) {
      jobs.push_back(&job);
    }
  }
  SortVictims(state, jobs);
  VersionRoom room{device.id, {}};
  for (const Job* job : jobs) {
    if (!ObstacleFor(state, device, need, until)) break;
    until.Leave(*job, device);
    room.stops.push_back(job->id);
  }
  if (ObstacleFor(state, device, need, until)) return std::nullopt;
  return room;
}

}  // namespace

absl::btree_map<DeviceId, VersionId> DevicesUnderLoad(const State& state) {
  absl::btree_map<DeviceId, VersionId> devices;
  if (!state.policy().yields_to_serving) return devices;
  for (VersionId id : state.under_load()) {
    const Version& version = state.versions().at(id);
    if (version.state != VersionState::kReady || !version.device) continue;
    devices.emplace(*version.device, id);
  }
  return devices;
}

Yields JobsThatYield(const State& state, DeviceId device, absl::Time now) {
  Yields yields;
  for (JobId id : state.devices().at(device).jobs) {
    const Job& job = state.jobs().at(id);
    if (MayYield(state, job, now)) {
      yields.jobs.push_back(id);
    } else if (!IsStopping(job)) {
      yields.next = std::min(yields.next, MinRunEnd(state, job));
    }
  }
  return yields;
}

std::optional<VersionRoom> RoomForVersion(
    const State& state, const Version& version,
    const absl::btree_set<DeviceId>& taken, absl::Time now) {
  if (!state.policy().yields_to_serving || state.draining()) {
    return std::nullopt;
  }
  const Need need = NeedOf(state, version);
  std::optional<VersionRoom> best;
  for (const auto& [id, device] : state.devices()) {
    Meanwhile until = WhenEmptied(device);
    until.promise_kept = false;
    if (taken.contains(id) || ObstacleFor(state, device, need, until)) continue;
    // Devices that are reserved for a tenant keep their training.
    if (state.reservations().At(id, now) != nullptr) continue;
    std::optional<VersionRoom> room =
        VersionRoomOn(state, device, version, now);
    if (!room) continue;
    if (!best || room->stops.size() < best->stops.size()) {
      best = std::move(room);
    }
  }
  return best;
}

absl::Time NextMinRun(const State& state, absl::Time now) {
  absl::Time next = absl::InfiniteFuture();
  if (!AnyMinRun(state.queues())) return next;
  for (const auto& [id, device] : state.devices()) {
    for (JobId job_id : device.jobs) {
      const Job& job = state.jobs().at(job_id);
      const absl::Time end = MinRunEnd(state, job);
      if (end > now && !IsStopping(job)) next = std::min(next, end);
    }
  }
  return next;
}

std::string LabelOf(const Version& version) {
  return absl::StrCat("'", version.model, "' version ", version.number);
}

std::string ModelTextFor(const Version& version, const std::string& tenant) {
  if (!version.tenant.empty() && version.tenant != tenant) {
    return "a model of another tenant";
  }
  return absl::StrCat("model ", LabelOf(version));
}

}  // namespace gpupool::scheduler
