#include "scheduler/place/reservation_policy.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/btree_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpupool::scheduler {
namespace {

constexpr size_t kMostNamed = 5;  // number of devices or reservations in a text

// Returns the first reservation of the device that overlaps the window, or
// null.
const TenantReservation* InTheWay(const State& state, DeviceId device,
                                  const ReservationNeed& need) {
  for (const TenantReservation* other : state.reservations().Of(device)) {
    if (other->start < need.end && need.start < other->end) return other;
  }
  return nullptr;
}

std::string TimeText(absl::Time time) {
  return absl::FormatTime(absl::RFC3339_sec, time, absl::UTCTimeZone());
}

std::string InTheWayText(const State& state, DeviceId device,
                         const TenantReservation& other) {
  return absl::StrCat(state.devices().at(device).name, " is reserved as '",
                      other.name, "' for ", other.tenant, " from ",
                      TimeText(other.start), " until ", TimeText(other.end));
}

std::string NamesText(const State& state, std::vector<DeviceId> devices) {
  const size_t all = devices.size();
  if (all == 0) return "none";
  if (all > kMostNamed) devices.resize(kMostNamed);
  return absl::StrCat(
      absl::StrJoin(devices, ", ",
                    [&](std::string* text, DeviceId id) {
                      text->append(state.devices().at(id).name);
                    }),
      all > kMostNamed ? absl::StrCat(" and ", all - kMostNamed, " more") : "");
}

// Devices of one kind that are not named, and the free ones among them.
struct OfKind {
  uint32_t devices = 0;
  std::vector<DeviceId> free;
};
using Kinds = absl::btree_map<std::string, OfKind>;

Kinds FindKinds(const State& state, const ReservationNeed& need) {
  Kinds kinds;
  for (const auto& [id, device] : state.devices()) {
    if (!need.device_kind.empty() && device.kind != need.device_kind) continue;
    if (absl::c_linear_search(need.named, id)) continue;
    OfKind& kind = kinds[device.kind];
    ++kind.devices;
    if (InTheWay(state, id, need) == nullptr) kind.free.push_back(id);
  }
  return kinds;
}

// Count of jobs that a drained device stands for, so that it comes last.
constexpr size_t kDrained = 1000;

// Returns how many jobs would have to go if the window began now.
size_t Others(const State& state, DeviceId id, const ReservationNeed& need) {
  const Device& device = state.devices().at(id);
  const TenantReservation wanted{.tenant = need.tenant};
  const auto others = absl::c_count_if(device.jobs, [&](JobId job) {
    return !wanted.Takes(state.jobs().at(job).tenant);
  });
  return static_cast<size_t>(others) + (device.drain ? kDrained : 0);
}

struct Choice {
  std::vector<DeviceId> devices;
  size_t others = 0;  // jobs on the devices
};

// Returns the best `count` of the free devices of one machine.
Choice FromSite(const State& state, const ReservationNeed& need,
                std::vector<DeviceId> free, size_t count) {
  absl::c_stable_sort(free, [&](DeviceId a, DeviceId b) {
    return Others(state, a, need) < Others(state, b, need);
  });
  const size_t most = Others(state, free[count - 1], need);
  std::erase_if(free,
                [&](DeviceId id) { return Others(state, id, need) > most; });
  Choice choice;
  if (state.topology().empty()) {
    choice.devices.assign(free.begin(), free.begin() + count);
  } else {
    choice.devices = BestConnected(state.topology(), free, count).ids;
  }
  for (DeviceId id : choice.devices) choice.others += Others(state, id, need);
  return choice;
}

// Returns the best `count` free devices of one kind. When no machine has
// enough, takes machines with the most free devices first.
Choice Choose(const State& state, const ReservationNeed& need,
              const std::vector<DeviceId>& free, size_t count) {
  std::vector<std::vector<DeviceId>> sites(state.sites());
  for (DeviceId id : free) {
    sites[state.devices().at(id).site].push_back(id);
  }
  std::optional<Choice> best;
  for (const std::vector<DeviceId>& site : sites) {
    if (site.size() < count) continue;
    Choice choice = FromSite(state, need, site, count);
    if (!best || choice.others < best->others) best = std::move(choice);
  }
  if (best) return *std::move(best);
  absl::c_stable_sort(
      sites, [](const auto& a, const auto& b) { return a.size() > b.size(); });
  Choice spread;
  for (const std::vector<DeviceId>& site : sites) {
    const size_t more = std::min(site.size(), count - spread.devices.size());
    spread.devices.insert(spread.devices.end(), site.begin(),
                          site.begin() + more);
  }
  for (DeviceId id : spread.devices) spread.others += Others(state, id, need);
  return spread;
}

std::string KindsText(const Kinds& kinds) {
  if (kinds.empty()) return "none";
  return absl::StrJoin(kinds, " and ", [](std::string* text, const auto& kind) {
    absl::StrAppend(text, kind.second.devices, " ", kind.first);
  });
}

// Returns the error that names free devices and the reservations in the way.
absl::Status TooFewFree(const State& state, const ReservationNeed& need,
                        const Kinds& kinds, uint32_t count) {
  std::string others;
  std::vector<DeviceId> free;
  for (const auto& [name, kind] : kinds) {
    free.insert(free.end(), kind.free.begin(), kind.free.end());
  }
  size_t named = 0;
  for (const auto& [id, device] : state.devices()) {
    if (!kinds.contains(device.kind)) continue;
    const TenantReservation* other = InTheWay(state, id, need);
    if (other == nullptr || ++named > kMostNamed) continue;
    absl::StrAppend(&others, "; ", InTheWayText(state, id, *other));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      count, " devices of one kind are not free from ", TimeText(need.start),
      " until ", TimeText(need.end), ": free are ", NamesText(state, free),
      others, "; reserve fewer, or for another time"));
}

// Checks that all named devices are free in the window.
absl::Status CheckNamed(const State& state, const ReservationNeed& need) {
  for (DeviceId id : need.named) {
    const TenantReservation* other = InTheWay(state, id, need);
    if (other == nullptr) continue;
    std::vector<DeviceId> free;
    for (const auto& [kind, devices] : FindKinds(state, need)) {
      free.insert(free.end(), devices.free.begin(), devices.free.end());
    }
    return absl::FailedPreconditionError(absl::StrCat(
        InTheWayText(state, id, *other), "; free from ", TimeText(need.start),
        " until ", TimeText(need.end), " besides: ",
        NamesText(state, std::move(free)), "; take those, or another time"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<DeviceId>> ChooseReserved(const State& state,
                                                     ReservationNeed need) {
  if (need.devices == 0 && need.named.empty()) {
    return absl::InvalidArgumentError(
        "neither a number of devices nor a device is given; say how many "
        "devices to reserve, or which");
  }
  const auto named = static_cast<uint32_t>(need.named.size());
  if (need.devices > 0 && need.devices < named) {
    return absl::InvalidArgumentError(
        absl::StrCat("devices is ", need.devices, ", but ", named,
                     " are named; leave the number out or raise it"));
  }
  if (absl::Status status = CheckNamed(state, need); !status.ok()) {
    return status;
  }
  if (named > 0 && need.device_kind.empty()) {
    need.device_kind = state.devices().at(need.named.front()).kind;
  }
  std::vector<DeviceId> chosen = need.named;
  const uint32_t more = need.devices > named ? need.devices - named : 0;
  if (more > 0) {
    const Kinds kinds = FindKinds(state, need);
    const bool are_there = absl::c_any_of(
        kinds, [&](const auto& kind) { return kind.second.devices >= more; });
    if (!are_there) {
      return absl::InvalidArgumentError(absl::StrCat(
          "devices is ", need.devices, "; of one kind there are ",
          KindsText(kinds), named > 0 ? " beside those that are named" : "",
          "; reserve fewer"));
    }
    std::optional<Choice> best;
    for (const auto& [name, kind] : kinds) {
      if (kind.free.size() < more) continue;
      Choice choice = Choose(state, need, kind.free, more);
      if (!best || choice.others < best->others) best = std::move(choice);
    }
    if (!best) return TooFewFree(state, need, kinds, more);
    chosen.insert(chosen.end(), best->devices.begin(), best->devices.end());
  }
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

}  // namespace gpupool::scheduler
