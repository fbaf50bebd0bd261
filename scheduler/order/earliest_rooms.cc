#include "scheduler/order/earliest_rooms.h"

#include <algorithm>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"
#include "scheduler/place/obstacle.h"
#include "scheduler/place/placed_jobs.h"

namespace gpupool::scheduler {
namespace {

struct RoomSearch {
  const State& state;
  const Need& need;
  absl::Time now;
};

// Returns when enough of the device will be free; InfiniteFuture when nobody
// knows. Lets the jobs leave in the order of their expected ends until the need
// fits.
absl::Time FreeAt(const RoomSearch& search, const Device& device,
                  absl::Span<const Job* const> jobs) {
  const auto& [state, need, now] = search;
  Meanwhile emptied = WhenEmptied(device);
  emptied.promise_kept = false;
  if (ObstacleFor(state, device, need, emptied)) return absl::InfiniteFuture();
  absl::InlinedVector<std::pair<absl::Time, const Job*>, 8> ends;
  for (const Job* job : jobs) {
    ends.emplace_back(ExpectedEnd(*job, now), job);
  }
  std::sort(ends.begin(), ends.end(), [](const auto& a, const auto& b) {
    return std::tie(a.first, a.second->id) < std::tie(b.first, b.second->id);
  });
  absl::Time at = std::max(now, device.cools_until);
  Meanwhile until = WhenSettled(device);
  until.cooled = true;
  const uint64_t needed = NeededOn(need, device);
  for (const auto& [end, job] : ends) {
    // Cheap test first: without the bytes there is no need to ask for
    // obstacles.
    const bool has_bytes = device.free_bytes(until.returned_bytes) >= needed;
    if (has_bytes && !ObstacleFor(state, device, need, until)) break;
    at = std::max(at, end);
    until.Leave(*job, device);
  }
  return at;
}

using SiteRoom = EarliestRooms::SiteRoom;

void Take(const SiteRoom& site, size_t count, Reservation& reservation) {
  for (size_t i = 0; i < count && i < site.free.size(); ++i) {
    reservation.devices.insert(site.free[i].second);
    reservation.at = std::max(reservation.at, site.free[i].first);
  }
}

// Reserves devices of the machine that has enough of them first.
std::optional<Reservation> OnOneSite(const std::vector<SiteRoom>& sites,
                                     size_t count) {
  const SiteRoom* best = nullptr;
  for (const SiteRoom& site : sites) {
    if (best == nullptr || site.At(count) < best->At(count)) best = &site;
  }
  if (best == nullptr || best->At(count) == absl::InfiniteFuture()) {
    return std::nullopt;
  }
  Reservation reservation{.at = absl::InfinitePast()};
  Take(*best, count, reservation);
  return reservation;
}

// Reserves whole machines of one kind, those that become free first.
std::optional<Reservation> OnWholeSites(const std::vector<SiteRoom>& sites,
                                        size_t count) {
  std::vector<const SiteRoom*> by_time;
  by_time.reserve(sites.size());
  for (const SiteRoom& site : sites) by_time.push_back(&site);
  std::stable_sort(by_time.begin(), by_time.end(),
                   [](const SiteRoom* a, const SiteRoom* b) {
                     return a->At(a->devices) < b->At(b->devices);
                   });
  std::optional<Reservation> best;
  absl::InlinedVector<absl::string_view, 2> kinds;
  for (const SiteRoom* first : by_time) {
    if (absl::c_linear_search(kinds, first->kind)) continue;
    kinds.push_back(first->kind);
    Reservation reservation{.at = absl::InfinitePast()};
    for (const SiteRoom* site : by_time) {
      if (site->kind != first->kind || site->free.empty()) continue;
      if (site->At(site->devices) == absl::InfiniteFuture()) continue;
      if (reservation.devices.size() >= count) break;
      Take(*site, std::min(site->devices, count - reservation.devices.size()),
           reservation);
    }
    if (reservation.devices.size() < count) continue;
    if (!best || reservation.at < best->at) best = std::move(reservation);
  }
  return best;
}

}  // namespace

absl::Time ExpectedEnd(const Job& job, absl::Time now) {
  if (!job.expected_run) return absl::InfiniteFuture();
  return std::max(now, now + (*job.expected_run - job.Attained(now)));
}

absl::Time EarliestRooms::SiteRoom::At(size_t count) const {
  if (count == 0) return absl::InfinitePast();
  return count <= free.size() ? free[count - 1].first : absl::InfiniteFuture();
}

EarliestRooms::Load EarliestRooms::LoadOf(const Device& device) {
  return {device.jobs.size(), device.job_bytes, device.gangs,
          device.reserved_for};
}

void EarliestRooms::Restart(const State& state, const Need& need,
                            absl::Time now,
                            const absl::btree_set<DeviceId>& excluded) {
  job_ = need.job;
  excluded_ = excluded;
  largest_ = 0;
  devices_.clear();
  devices_.reserve(state.devices().size());
  sites_.assign(state.sites(), {});
  const PlacedJobs placed(state);
  for (const auto& [id, device] : state.devices()) {
    if (!DeviceMatches(device, need)) continue;
    SiteRoom& site = sites_[device.site];
    site.kind = device.kind;
    largest_ = std::max(largest_, ++site.devices);
    if (excluded.contains(id)) continue;
    const absl::Time at = FreeAt({state, need, now}, device, placed.On(id));
    devices_.push_back({&device, LoadOf(device), at});
    if (at != absl::InfiniteFuture()) site.free.emplace_back(at, id);
  }
}

// Looks again at the devices whose load has changed.
void EarliestRooms::Renew(const State& state, const Need& need,
                          absl::Time now) {
  for (OnDevice& known : devices_) {
    const Load load = LoadOf(*known.device);
    if (load == known.load) continue;
    known.load = load;
    std::vector<std::pair<absl::Time, DeviceId>>& free =
        sites_[known.device->site].free;
    const DeviceId id = known.device->id;
    std::erase(free, std::make_pair(known.at, id));
    absl::InlinedVector<const Job*, 8> jobs;
    for (JobId job : known.device->jobs) jobs.push_back(&state.jobs().at(job));
    known.at = FreeAt({state, need, now}, *known.device, jobs);
    if (known.at != absl::InfiniteFuture()) free.emplace_back(known.at, id);
  }
}

std::optional<Reservation> EarliestRooms::Find(
    const State& state, const Need& need, absl::Time now,
    const absl::btree_set<DeviceId>& excluded) {
  if (need.devices == 0) return std::nullopt;
  if (job_ && job_ == need.job && excluded_ == excluded) {
    Renew(state, need, now);
  } else {
    Restart(state, need, now, excluded);
  }
  for (SiteRoom& site : sites_) {
    if (!std::is_sorted(site.free.begin(), site.free.end())) {
      std::sort(site.free.begin(), site.free.end());
    }
  }
  return need.devices <= largest_ ? OnOneSite(sites_, need.devices)
                                  : OnWholeSites(sites_, need.devices);
}

std::optional<Reservation> EarliestRoom(
    const State& state, const Need& need, absl::Time now,
    const absl::btree_set<DeviceId>& excluded) {
  return EarliestRooms().Find(state, need, now, excluded);
}

}  // namespace gpupool::scheduler
