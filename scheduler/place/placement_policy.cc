#include "scheduler/place/placement_policy.h"

#include <algorithm>
#include <limits>
#include <tuple>

#include "absl/algorithm/container.h"
#include "absl/container/btree_map.h"
#include "scheduler/place/obstacle.h"
#include "scheduler/place/pack_policy.h"

namespace gpupool::scheduler {
namespace {

// The devices of one kind of one machine.
struct Site {
  absl::string_view kind;
  size_t count = 0;  // index into Placement::kinds
  uint32_t devices = 0;
  std::vector<const Device*> free;
  // Number of devices for which the machine has host room.
  uint32_t hosted = std::numeric_limits<uint32_t>::max();

  bool Has(size_t count) const {
    return free.size() >= count && hosted >= count;
  }
};
using Sites = std::vector<Site>;

// Orders the devices that would do for a need by preference.
class Taste {
 public:
  Taste(const State& state, const Need& need)
      : state_(state),
        // Versions are spread, since their requests compete on a device.
        rule_(need.job ? state.policy().placement : PlacementRule::kSpread),
        is_job_(need.job.has_value()) {}

  PlacementRule rule() const { return rule_; }
  const Topology& topology() const { return state_.topology(); }

  // Returns the load; smaller is better.
  std::tuple<int, uint64_t, uint64_t> LoadOf(const Device& device) const {
    if (rule_ == PlacementRule::kBestFit) {
      return {Reluctance(device), device.free_bytes(), 0};
    }
    return {Reluctance(device),
            device.jobs.size() + device.stray_attempts.size(),
            device.versions.size()};
  }
  auto Preference(const Device& device, const Site& site) const {
    return std::tuple_cat(
        LoadOf(device),
        std::make_tuple(site.free.size(), device.free_bytes(), device.id));
  }

 private:
  // Returns how unwelcome a choice of the device is. A job may start on a
  // reserved device only if it is reserved for its tenant and would idle
  // otherwise; versions avoid reserved devices.
  int Reluctance(const Device& device) const {
    int reluctance = device.cools();
    if (state_.reservations().At(device.id, state_.now()) != nullptr) {
      reluctance += is_job_ ? -1 : 2;
    }
    return reluctance;
  }

  const State& state_;
  const PlacementRule rule_;
  const bool is_job_;
};

size_t CountOf(Placement& placement, const Device& device) {
  for (size_t i = 0; i < placement.kinds.size(); ++i) {
    if (placement.kinds[i].kind == device.kind) return i;
  }
  placement.kinds.push_back(KindCount{.kind = device.kind});
  return placement.kinds.size() - 1;
}

// Returns the device's site and counts the device there.
Site& SiteOf(Placement& placement, Sites& sites, const Device& device) {
  Site& site = sites[device.site];
  if (site.devices++ == 0) {
    site.kind = device.kind;
    site.count = CountOf(placement, device);
  }
  return site;
}

// Puts the best `count` of the site's free devices first, the worst of them
// last. Of devices with no more load than the best ones, takes those that are
// connected best. Returns the slowest link between them.
Link KeepBest(const Taste& taste, Site& site, size_t count) {
  const auto better = [&](const Device* a, const Device* b) {
    return taste.Preference(*a, site) < taste.Preference(*b, site);
  };
  if (taste.topology().empty()) {
    std::partial_sort(site.free.begin(), site.free.begin() + count,
                      site.free.end(), better);
    return Link::kUnknown;
  }
  std::sort(site.free.begin(), site.free.end(), better);
  const auto most = taste.LoadOf(*site.free[count - 1]);
  std::vector<DeviceId> ids;
  for (const Device* device : site.free) {
    if (taste.LoadOf(*device) <= most) ids.push_back(device->id);
  }
  const ConnectedDevices best = BestConnected(taste.topology(), ids, count);
  std::stable_partition(
      site.free.begin(), site.free.end(), [&](const Device* device) {
        return std::binary_search(best.ids.begin(), best.ids.end(), device->id);
      });
  return best.connection.slowest;
}

// Returns `count` devices of the best site; empty when no site has enough.
std::vector<const Device*> FromOneSite(const Taste& taste, Sites& sites,
                                       size_t count) {
  const Site* best = nullptr;
  Link best_link = Link::kUnknown;
  for (Site& site : sites) {
    if (!site.Has(count)) continue;
    const Link link = KeepBest(taste, site, count);
    const auto standing = [&](const Site& of, Link slowest) {
      const Device& worst = *of.free[count - 1];
      return std::make_tuple(taste.LoadOf(worst), -static_cast<int>(slowest),
                             taste.Preference(worst, of));
    };
    if (best != nullptr && standing(*best, best_link) < standing(site, link)) {
      continue;
    }
    best = &site;
    best_link = link;
  }
  if (best == nullptr) return {};
  return {best->free.begin(), best->free.begin() + count};
}

// Returns the devices of as many whole free machines as it takes, all of one
// kind.
std::vector<const Device*> FromWholeSites(const Placement& placement,
                                          const Sites& sites, size_t count) {
  for (size_t kind = 0; kind < placement.kinds.size(); ++kind) {
    std::vector<const Device*> chosen;
    for (const Site& site : sites) {
      const bool whole = site.devices > 0 && site.Has(site.devices);
      if (!whole || site.count != kind) continue;
      chosen.insert(chosen.end(), site.free.begin(), site.free.end());
      if (chosen.size() < count) continue;
      chosen.resize(count);
      return chosen;
    }
  }
  return {};
}

uint32_t LargestSite(const Sites& sites) {
  uint32_t largest = 0;
  for (const Site& site : sites) largest = std::max(largest, site.devices);
  return largest;
}

std::vector<const Device*> Packed(const State& state, const Need& need,
                                  Sites& sites) {
  std::vector<std::vector<const Device*>> usable(sites.size());
  for (size_t i = 0; i < sites.size(); ++i) {
    if (sites[i].Has(need.devices)) usable[i] = std::move(sites[i].free);
  }
  return PackOnOneSite(state, need, usable);
}

// Leaves CPU devices out of a need for any device when enough accelerators are
// free: training is many times as fast there.
void PreferAccelerators(const Need& need, Sites& sites) {
  if (need.wanted_device != kAnyDevice || need.devices == 0) return;
  const bool are_free = absl::c_any_of(sites, [&](const Site& site) {
    return site.kind != kCpuKind && site.Has(need.devices);
  });
  if (!are_free) return;
  for (Site& site : sites) {
    if (site.kind == kCpuKind) site.free.clear();
  }
}

// Returns the chosen devices by id; empty when there are not enough.
std::vector<DeviceId> ChooseDevices(const State& state, const Need& need,
                                    const Placement& placement, Sites& sites) {
  const uint32_t count = need.devices;
  const Taste taste(state, need);
  PreferAccelerators(need, sites);
  std::vector<const Device*> chosen;
  if (count > LargestSite(sites)) {
    chosen = FromWholeSites(placement, sites, count);
  } else if (taste.rule() == PlacementRule::kPack && count > 0) {
    chosen = Packed(state, need, sites);
  } else {
    chosen = FromOneSite(taste, sites, count);
  }
  std::vector<DeviceId> ids;
  ids.reserve(chosen.size());
  for (const Device* device : chosen) ids.push_back(device->id);
  std::sort(ids.begin(), ids.end());
  return ids;
}

bool HostsHold(const std::vector<Machine>& machines, const State& state,
               const Need& need, absl::Span<const DeviceId> devices) {
  if (need.demands.host.none()) return true;
  absl::btree_map<uint32_t, uint32_t> counts;
  for (DeviceId id : devices) ++counts[state.devices().at(id).machine];
  return absl::c_all_of(counts, [&](const auto& count) {
    return machines[count.first].Holds(need.demands.host) >= count.second;
  });
}

// Returns whether the device would do if CPU devices were not left to others.
bool IsSpared(const State& state, const Device& device, const Need& need) {
  if (!need.spares_cpu) return false;
  Need asked = need;
  asked.spares_cpu = false;
  const std::optional<Obstacle> obstacle = ObstacleFor(state, device, asked);
  return !obstacle || !Lasts(obstacle->kind);
}

// Returns whether the device is free enough once all jobs have left. A version
// does not wait for devices that are reserved for a tenant.
bool IsWorthHolding(const State& state, const Device& device,
                    const Need& need) {
  const bool is_for_a_tenant =
      !need.job && state.reservations().At(device.id, state.now()) != nullptr;
  return !is_for_a_tenant &&
         !ObstacleFor(state, device, need, WhenEmptied(device));
}

}  // namespace

Placement Place(const State& state, const Need& need,
                const absl::btree_set<DeviceId>& excluded) {
  Placement placement;
  Sites sites(state.sites());
  for (const auto& [id, device] : state.devices()) {
    const std::optional<Obstacle> obstacle = ObstacleFor(state, device, need);
    if (obstacle && obstacle->kind == ObstacleKind::kNotWanted) {
      if (IsSpared(state, device, need)) placement.spared = &device;
      continue;
    }
    Site& site = SiteOf(placement, sites, device);
    KindCount& count = placement.kinds[site.count];
    ++count.devices;
    placement.largest_limit =
        std::max(placement.largest_limit, device.full_bytes);
    placement.any_ready = placement.any_ready || device.open();
    if (device.drain && placement.drained == nullptr) {
      placement.drained = &device;
    }
    const bool is_excluded = !excluded.empty() && excluded.contains(id);
    if (device.open() && !is_excluded) {
      placement.largest_free =
          std::max(placement.largest_free, device.free_bytes());
    }
    if (obstacle && Lasts(obstacle->kind)) continue;
    if (++count.large_enough >= need.devices) placement.fit = Fit::kNotNow;
    if (obstacle && obstacle->kind == ObstacleKind::kHeldBack) {
      if (placement.held_back == nullptr) placement.held_back = &device;
      continue;
    }
    ++count.allowed;
    if (device.open()) ++count.ready;
    if (is_excluded || obstacle) continue;
    if (!need.demands.host.none()) {
      site.hosted = state.machines()[device.machine].Holds(need.demands.host);
    }
    // The host may have room for fewer devices than are free.
    if (site.free.size() < site.hosted) ++count.free;
    site.free.push_back(&device);
  }
  if (std::any_of(placement.kinds.begin(), placement.kinds.end(),
                  [&](const KindCount& count) {
                    return count.allowed >= need.devices;
                  })) {
    placement.held_back = nullptr;
  }
  placement.devices = ChooseDevices(state, need, placement, sites);
  if (!placement.devices.empty()) placement.fit = Fit::kNow;
  if (placement.fit == Fit::kNotNow && !HostsCouldHold(state, need)) {
    placement.fit = Fit::kNever;
    placement.lacks_host = true;
  }
  return placement;
}

bool AreFreeFor(const State& state, const Need& need,
                absl::Span<const DeviceId> devices) {
  return absl::c_none_of(devices,
                         [&](DeviceId id) {
                           return ObstacleFor(state, state.devices().at(id),
                                              need)
                               .has_value();
                         }) &&
         HostsHold(state.machines(), state, need, devices);
}

bool HostsWillHold(const State& state, const Need& need,
                   absl::Span<const DeviceId> devices,
                   absl::Span<const JobId> stopping) {
  if (need.demands.host.none()) return true;
  std::vector<Machine> machines = state.machines();
  for (const auto& [id, device] : state.devices()) {
    HostNeed& used = machines[device.machine].used;
    for (JobId job_id : device.jobs) {
      const Job& job = state.jobs().at(job_id);
      if (!IsStopping(job) && !absl::c_linear_search(stopping, job_id)) {
        continue;
      }
      used.milli_cores -= job.demands.host.milli_cores;
      used.bytes -= job.demands.host.bytes;
    }
  }
  return HostsHold(machines, state, need, devices);
}

bool HostsCouldHold(const State& state, const Need& need) {
  if (need.demands.host.none()) return true;
  struct OnSite {
    absl::string_view kind;
    uint32_t devices = 0;
    uint32_t hosted = 0;
  };
  std::vector<OnSite> sites(state.sites());
  uint32_t largest = 0;
  for (const auto& [id, device] : state.devices()) {
    if (!DeviceMatches(device, need)) continue;
    OnSite& site = sites[device.site];
    largest = std::max(largest, ++site.devices);
    site.kind = device.kind;
    site.hosted = state.machines()[device.machine].EverHolds(need.demands.host);
  }
  absl::btree_map<absl::string_view, uint64_t> whole;
  for (const OnSite& site : sites) {
    const uint32_t able = std::min(site.devices, site.hosted);
    if (able >= need.devices) return true;
    if (site.devices > 0 && able == site.devices) whole[site.kind] += able;
  }
  // A need above the largest machine takes whole machines.
  return need.devices > largest &&
         absl::c_any_of(whole, [&](const auto& of_kind) {
           return of_kind.second >= need.devices;
         });
}

absl::btree_set<DeviceId> DevicesToHold(const State& state, const Need& need) {
  Placement placement;
  Sites sites(state.sites());
  for (const auto& [id, device] : state.devices()) {
    if (!DeviceMatches(device, need)) continue;
    Site& site = SiteOf(placement, sites, device);
    if (IsWorthHolding(state, device, need)) site.free.push_back(&device);
  }
  const auto lacks_less = [](const Device* a, const Device* b) {
    return a->free_bytes() > b->free_bytes();
  };
  std::vector<const Device*> best;
  for (Site& site : sites) {
    std::stable_sort(site.free.begin(), site.free.end(), lacks_less);
    if (need.devices == 0 || site.free.size() < need.devices) continue;
    site.free.resize(need.devices);
    if (best.empty() || lacks_less(site.free.back(), best.back())) {
      best = site.free;
    }
  }
  if (need.devices > LargestSite(sites)) {
    best = FromWholeSites(placement, sites, need.devices);
  }
  absl::btree_set<DeviceId> held;
  for (const Device* device : best) held.insert(device->id);
  return held;
}

bool AreWorthHolding(const State& state, const Need& need,
                     const absl::btree_set<DeviceId>& devices) {
  return std::all_of(devices.begin(), devices.end(), [&](DeviceId id) {
    return IsWorthHolding(state, state.devices().at(id), need);
  });
}

std::string HostText(const HostNeed& host) {
  std::string text;
  if (host.milli_cores > 0) {
    absl::StrAppend(&text, static_cast<double>(host.milli_cores) / 1000,
                    " host cores");
  }
  if (host.bytes > 0) {
    absl::StrAppend(&text, text.empty() ? "" : " and ", FormatBytes(host.bytes),
                    " of host memory");
  }
  return text;
}

}  // namespace gpupool::scheduler
