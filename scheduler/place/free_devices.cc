#include "scheduler/place/free_devices.h"

#include <algorithm>
#include <functional>
#include <optional>

#include "scheduler/place/obstacle.h"
#include "scheduler/place/placement_policy.h"

namespace gpupool::scheduler {
namespace {

// Returns whether the sizes in `descending` order hold the need's ranks.
bool Has(const std::vector<uint64_t>& descending, const Need& need) {
  return need.devices > 0 && need.devices <= descending.size() &&
         descending[need.devices - 1] >= need.bytes;
}

void SortDown(std::vector<uint64_t>& bytes) {
  std::sort(bytes.begin(), bytes.end(), std::greater<>());
}

// Returns whether a tenant's reservation is all that keeps jobs away.
bool ReservedOnly(const State& state, const Device& device, const Need& least) {
  return state.reservations().At(device.id, state.now()) != nullptr &&
         !ObstacleFor(state, device, least, {.reservation_over = true});
}

}  // namespace

FreeDevices::FreeDevices(const State& state,
                         const absl::btree_set<DeviceId>& excluded,
                         const Queues::Entry* queue)
    : state_(&state), queue_(queue), sites_(state.sites()) {
  const Need least = LeastNeed(queue);
  admitted_.reserve(state.devices().size());
  for (const auto& [id, device] : state.devices()) {
    const std::optional<Obstacle> obstacle = ObstacleFor(state, device, least);
    if (obstacle && obstacle->kind == ObstacleKind::kNotWanted) continue;
    Site& site = sites_[device.site];
    if (site.devices++ == 0) {
      while (site.kind < kinds_.size() &&
             kinds_[site.kind].kind != device.kind) {
        ++site.kind;
      }
      if (site.kind == kinds_.size()) kinds_.push_back({.kind = device.kind});
    }
    if (!excluded.empty() && excluded.contains(id)) continue;
    if (obstacle) {
      if (ReservedOnly(state, device, least)) of_tenants_.push_back(&device);
      continue;
    }
    Admit({device.free_bytes(), id, device.site, device.gangs > 0});
  }
  for (const Site& site : sites_) {
    if (site.devices == 0) continue;
    smallest_site_ = smallest_site_ == 0
                         ? site.devices
                         : std::min(smallest_site_, site.devices);
  }
}

void FreeDevices::Admit(const Admitted& device) {
  Kind& kind = kinds_[sites_[device.site].kind];
  kind.most_free = std::max(kind.most_free, device.free_bytes);
  admitted_.push_back(device);
}

FreeDevices FreeDevices::Without(
    const absl::btree_set<DeviceId>& excluded) const {
  FreeDevices others;
  others.state_ = state_;
  others.queue_ = queue_;
  others.sites_ = sites_;
  others.smallest_site_ = smallest_site_;
  for (const Kind& kind : kinds_) {
    others.kinds_.push_back({.kind = kind.kind, .full = kind.full});
  }
  others.admitted_.reserve(admitted_.size());
  // Both are sorted by id.
  auto next = excluded.begin();
  for (const Admitted& device : admitted_) {
    while (next != excluded.end() && *next < device.id) ++next;
    if (next != excluded.end() && *next == device.id) continue;
    others.Admit(device);
  }
  for (const Device* device : of_tenants_) {
    if (!excluded.contains(device->id)) others.of_tenants_.push_back(device);
  }
  return others;
}

template <typename Holds>
bool FreeDevices::AnyKind(const Need& need, Holds holds) {
  return std::any_of(kinds_.begin(), kinds_.end(), [&](Kind& kind) {
    return KindMayMatch(kind.kind, need) && holds(kind);
  });
}

// Sums up what gangs may use, on the first need for several devices: element n
// is the most bytes that n + 1 devices all have.
void FreeDevices::LookForGangs() {
  looked_for_gangs_ = true;
  std::vector<uint32_t> ends(sites_.size());  // of each site's part of `free`
  uint32_t end = 0;
  for (size_t at = 0; at < sites_.size(); ++at) {
    ends[at] = end;
    end += sites_[at].devices;
  }
  std::vector<uint64_t> free(end);
  for (const Admitted& device : admitted_) {
    if (device.has_gang) continue;
    free[ends[device.site]++] = device.free_bytes;
    kinds_[sites_[device.site].kind].on_all.push_back(device.free_bytes);
  }
  uint32_t first = 0;
  for (size_t at = 0; at < sites_.size(); ++at) {
    const size_t count = ends[at] - first;
    const auto begin = free.begin() + first;
    std::sort(begin, begin + count, std::greater<>());
    Descending& best = kinds_[sites_[at].kind].on_a_site;
    if (count > 0) best.resize(std::max(best.size(), count));
    for (size_t n = 0; n < count; ++n) best[n] = std::max(best[n], begin[n]);
    first += sites_[at].devices;
  }
}

// Sorts no more than the largest gang so far asks for.
bool FreeDevices::HasOnAll(Kind& kind, const Need& need) {
  if (need.devices > kind.on_all.size()) return false;
  if (need.devices > kind.sorted) {
    std::partial_sort(kind.on_all.begin(), kind.on_all.begin() + need.devices,
                      kind.on_all.end(), std::greater<>());
    kind.sorted = need.devices;
  }
  return Has(kind.on_all, need);
}

bool FreeDevices::HostMayHold(const Need& need) const {
  const auto& machines = state_->machines();
  return std::any_of(machines.begin(), machines.end(),
                     [&](const Machine& machine) {
                       return machine.Holds(need.demands.host) > 0;
                     });
}

bool FreeDevices::ReservedMayHold(const Need& need) const {
  return std::any_of(of_tenants_.begin(), of_tenants_.end(),
                     [&](const Device* device) {
                       return !ObstacleFor(*state_, *device, need).has_value();
                     });
}

bool FreeDevices::MayHold(const Need& need) {
  if (!need.demands.host.none() && !HostMayHold(need)) return false;
  // A false yes costs one more Place; a false no would starve a job. So every
  // doubt is a yes.
  if (!of_tenants_.empty() && ReservedMayHold(need)) return true;
  const bool may_one = need.devices > 0 && !admitted_.empty() &&
                       AnyKind(need, [&](const Kind& kind) {
                         return kind.most_free >= need.bytes;
                       });
  if (!may_one || need.devices == 1) return may_one;
  if (!looked_for_gangs_) LookForGangs();
  return AnyKind(need, [&](Kind& kind) {
    // A gang that exceeds the smallest machine may span several.
    return Has(kind.on_a_site, need) ||
           (need.devices > smallest_site_ && HasOnAll(kind, need));
  });
}

bool FreeDevices::NamedMayEverHold(const Need& need) const {
  const auto& devices = state_->devices();
  return need.devices == 1 &&
         std::any_of(devices.begin(), devices.end(), [&](const auto& item) {
           const auto obstacle = ObstacleFor(*state_, item.second, need);
           return !obstacle || !Lasts(obstacle->kind);
         });
}

bool FreeDevices::MayEverHold(const Need& need) {
  if (NamesDevice(need.wanted_device)) {
    return NamedMayEverHold(need) && HostsCouldHold(*state_, need);
  }
  if (!kinds_.empty() && kinds_.front().full.empty()) {
    for (const auto& [id, device] : state_->devices()) {
      if (queue_ != nullptr && !queue_->MayUse(id)) continue;
      kinds_[sites_[device.site].kind].full.push_back(device.full_bytes);
    }
    for (Kind& kind : kinds_) SortDown(kind.full);
  }
  return AnyKind(need,
                 [&](const Kind& kind) { return Has(kind.full, need); }) &&
         HostsCouldHold(*state_, need);
}

}  // namespace gpupool::scheduler
