#include "scheduler/yield/elastic_policy.h"

#include <algorithm>
#include <utility>

#include "scheduler/order/queue_policy.h"
#include "scheduler/place/obstacle.h"
#include "scheduler/place/placement_policy.h"

namespace gpupool::scheduler {
namespace {

// Maximum number of queued jobs whose needs are added up.
constexpr size_t kMostAsked = 256;

bool StaysWithinLimit(const State& state, const Job& job, uint32_t more) {
  return !state.usage().LevelAtLimit(job.tenant, {more, job.bytes},
                                     state.policy().tenants) &&
         !state.queues().IsFull(job.queue, more);
}

// Returns whether the device takes the need. It must not be in `held`.
bool Takes(const State& state, const Device& device, const Need& need,
           const Meanwhile& until = {.host_freed = true}) {
  return !ObstacleFor(state, device, need, until).has_value();
}

// Returns the least number of devices that other queued jobs without reserved
// devices need.
uint64_t NeededByOthers(const State& state, const Job& job,
                        absl::string_view kind) {
  uint64_t needed = 0;
  size_t asked = 0;
  for (const QueueKey& key : state.queue()) {
    if (key.job == job.id) continue;
    if (++asked > kMostAsked) break;
    const Job& other = state.jobs().at(key.job);
    if (KindMayMatch(kind, NeedOf(state, other)) &&
        other.reserved_devices.empty()) {
      needed += other.device_count;
    }
  }
  return needed;
}

// Returns the site of all ranks; nothing when they are on several.
std::optional<uint32_t> SiteOf(const State& state, const Job& job) {
  std::optional<uint32_t> site;
  for (const Rank& rank : job.ranks) {
    const uint32_t there = state.devices().at(rank.device).site;
    if (site.value_or(there) != there) return std::nullopt;
    site = there;
  }
  return site;
}

// Devices that one machine could give to a waiting job.
struct SiteRoom {
  std::vector<DeviceId> free;
  std::vector<const Job*> spare;  // running jobs with spare devices
};

// Returns the devices of `running` on which `job` fits once that has left.
std::vector<DeviceId> DevicesAfter(const State& state, const Job& running,
                                   const Job& job,
                                   const absl::btree_set<DeviceId>& held) {
  const Need need = NeedOf(state, job);
  std::vector<DeviceId> devices;
  for (const Rank& rank : running.ranks) {
    const Device& device = state.devices().at(rank.device);
    Meanwhile until = WhenSettled(device);
    until.settled = false;
    until.Leave(running, device);
    if (!rank.end && !held.contains(device.id) &&
        Takes(state, device, need, until)) {
      devices.push_back(rank.device);
    }
  }
  return devices;
}

std::vector<SiteRoom> RoomOnSites(const State& state, const Job& job,
                                  const absl::btree_set<DeviceId>& held,
                                  absl::Time now) {
  std::vector<SiteRoom> sites(state.sites());
  const Need need = NeedOf(state, job);
  for (const auto& [id, device] : state.devices()) {
    if (held.contains(id) || !Takes(state, device, need)) continue;
    sites[device.site].free.push_back(id);
  }
  for (JobId id : state.elastic()) {
    const Job& running = state.jobs().at(id);
    if (!MayShrinkFor(running, job, state, now)) continue;
    const Device& first = state.devices().at(running.ranks.front().device);
    if (!DeviceMatches(first, need)) continue;
    sites[first.site].spare.push_back(&running);
  }
  return sites;
}

// Returns room on one machine. Jobs with the most to give go first, so that the
// fewest stop.
std::optional<Room> RoomOn(const State& state, const Job& job, SiteRoom& site,
                           const absl::btree_set<DeviceId>& held) {
  Room room{std::move(site.free), {}};
  std::stable_sort(site.spare.begin(), site.spare.end(),
                   [](const Job* a, const Job* b) {
                     return SpareDevices(*a) > SpareDevices(*b);
                   });
  for (const Job* running : site.spare) {
    if (room.devices.size() >= job.device_count) break;
    std::vector<DeviceId> devices = DevicesAfter(state, *running, job, held);
    const size_t lacking = job.device_count - room.devices.size();
    const size_t count =
        std::min({lacking, devices.size(), size_t{SpareDevices(*running)}});
    if (count == 0) continue;
    room.devices.insert(room.devices.end(), devices.end() - count,
                        devices.end());
    room.stops.push_back({running->id, StopReason::kResized});
  }
  if (room.devices.size() < job.device_count || room.stops.empty()) {
    return std::nullopt;
  }
  std::sort(room.devices.begin(), room.devices.end());
  return room;
}

}  // namespace

uint32_t SpareDevices(const Job& job) {
  return job.elastic() ? job.device_count - job.device_counts.front() : 0;
}

bool MayShrinkFor(const Job& running, const Job& job, const State& state,
                  absl::Time now) {
  return running.elastic() && SpareDevices(running) > 0 &&
         running.state == JobState::kRunning && !IsStopping(running) &&
         !StandsAbove(state, running, job) &&
         now - running.run_since >= state.QueueOf(running).min_run &&
         SiteOf(state, running).has_value();
}

std::vector<DeviceId> WidestPlace(const State& state, const Job& job,
                                  std::vector<DeviceId> least,
                                  const absl::btree_set<DeviceId>& held) {
  if (!job.elastic() || least.empty()) return least;
  const std::string& kind = state.devices().at(least.front()).kind;
  const uint64_t others = NeededByOthers(state, job, kind);
  for (auto count = job.device_counts.rbegin();
       count != job.device_counts.rend() && *count > least.size(); ++count) {
    if (!StaysWithinLimit(state, job, *count)) continue;
    Need need = NeedOf(state, job);
    need.wanted_device = kind;
    need.devices = *count;
    Placement place = Place(state, need, held);
    if (place.fit != Fit::kNow) continue;
    if (place.kinds.front().free >= *count + others) return place.devices;
  }
  return least;
}

std::optional<uint32_t> CouldGrowTo(const State& state, const Job& job,
                                    const absl::btree_set<DeviceId>& held) {
  const std::optional<uint32_t> site = SiteOf(state, job);
  if (!site || job.state != JobState::kRunning || IsStopping(job)) {
    return std::nullopt;
  }
  uint32_t devices = job.device_count;
  Need need = NeedOf(state, job);
  need.devices = devices + 1;
  for (const auto& [id, device] : state.devices()) {
    if (device.site != *site || job.FindRank(id) != nullptr) continue;
    devices += !held.contains(id) && Takes(state, device, need);
  }
  const uint32_t machine = state.devices().at(job.ranks.front().device).machine;
  const uint32_t hosted = state.machines()[machine].Holds(job.demands.host);
  devices = std::min<uint64_t>(devices, uint64_t{job.device_count} + hosted);
  for (auto count = job.device_counts.rbegin();
       count != job.device_counts.rend() && *count > job.device_count;
       ++count) {
    if (*count > devices) continue;
    if (!StaysWithinLimit(state, job, *count - job.device_count)) continue;
    if (job.expected_run) {
      const double saved = 1.0 - static_cast<double>(job.device_count) / *count;
      const absl::Duration rest = *job.expected_run - job.Attained(state.now());
      if (rest * saved <= state.restart_cost()) continue;
    }
    return *count;
  }
  return std::nullopt;
}

absl::Time GrowTime(const State& state, const Job& job) {
  const absl::Duration wait = std::max(
      state.policy().grow_after, state.restart_cost() * kGrowAfterRestarts);
  return std::max(job.may_grow_since + wait,
                  job.run_since + std::max(wait, state.QueueOf(job).min_run));
}

std::optional<Room> RoomByShrinking(const State& state, const Job& job,
                                    const absl::btree_set<DeviceId>& held,
                                    absl::Time now) {
  for (SiteRoom& site : RoomOnSites(state, job, held, now)) {
    if (site.spare.empty()) continue;
    auto room = RoomOn(state, job, site, held);
    if (!room) continue;
    std::vector<JobId> stopping;
    for (const Stop& stop : room->stops) stopping.push_back(stop.job);
    if (HostsWillHold(state, NeedOf(state, job), room->devices, stopping))
      return room;
  }
  return std::nullopt;
}

}  // namespace gpupool::scheduler
