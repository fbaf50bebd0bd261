#include "scheduler/placement_policy.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpupool::scheduler {
namespace {

using Candidates = absl::InlinedVector<const Device*, 16>;

bool KindMatches(const Device& device, const Need& need) {
  return need.device_kind.empty() || device.kind == need.device_kind;
}

// Smaller is better.
auto Preference(const Device& device, const Need& need) {
  return std::make_tuple(device.jobs.size() + device.stray_attempts.size(),
                         device.versions.size(),
                         device.free_bytes() - need.bytes, device.id);
}

// Ranks wait for each other in every step, so two attempts of several ranks
// that share devices could wait for each other crosswise.
bool IsFreeFor(const State& state, const Device& device, const Need& need) {
  if (device.free_bytes() < need.bytes) return false;
  return need.devices <= 1 ||
         std::none_of(device.jobs.begin(), device.jobs.end(), [&](JobId id) {
           return state.jobs().at(id).device_count > 1;
         });
}

KindCount& CountOf(Placement& placement, const Device& device) {
  for (KindCount& count : placement.kinds) {
    if (count.kind == device.kind) return count;
  }
  return placement.kinds.emplace_back(KindCount{.kind = device.kind});
}

// The first `count` of one kind, of the kind that comes to it first; empty
// when none does. By id.
std::vector<DeviceId> FirstOfOneKind(const Candidates& candidates,
                                     uint32_t count) {
  absl::InlinedVector<std::pair<absl::string_view, std::vector<DeviceId>>, 2>
      chosen;
  for (const Device* device : candidates) {
    auto it = std::find_if(
        chosen.begin(), chosen.end(),
        [&](const auto& entry) { return entry.first == device->kind; });
    if (it == chosen.end()) {
      it = chosen.insert(it, {device->kind, {}});
    }
    it->second.push_back(device->id);
    if (it->second.size() < count) continue;
    std::sort(it->second.begin(), it->second.end());
    return std::move(it->second);
  }
  return {};
}

bool IsWorthHolding(const Device& device, const Need& need) {
  const uint64_t stays = device.version_bytes;
  return KindMatches(device, need) && device.ready &&
         stays <= device.limit_bytes &&
         need.bytes <= device.limit_bytes - stays;
}

}  // namespace

Placement Place(const State& state, const Need& need,
                const absl::btree_set<DeviceId>& excluded) {
  Placement placement;
  Candidates candidates;
  for (const auto& [id, device] : state.devices()) {
    if (!KindMatches(device, need)) continue;
    KindCount& count = CountOf(placement, device);
    ++count.devices;
    placement.largest_limit =
        std::max(placement.largest_limit, device.full_bytes);
    placement.any_ready = placement.any_ready || device.ready;
    const bool admitted = device.ready && !excluded.contains(id);
    if (admitted) {
      placement.largest_free =
          std::max(placement.largest_free, device.free_bytes());
    }
    if (device.full_bytes < need.bytes) continue;
    if (++count.large_enough >= need.devices) placement.fit = Fit::kNotNow;
    if (device.limit_bytes < need.bytes) {
      if (placement.held_back == nullptr) placement.held_back = &device;
      continue;
    }
    ++count.allowed;
    if (device.ready) ++count.ready;
    if (!admitted || !IsFreeFor(state, device, need)) continue;
    ++count.free;
    candidates.push_back(&device);
  }
  if (std::any_of(placement.kinds.begin(), placement.kinds.end(),
                  [&](const KindCount& count) {
                    return count.allowed >= need.devices;
                  })) {
    placement.held_back = nullptr;
  }
  std::sort(candidates.begin(), candidates.end(),
            [&](const Device* a, const Device* b) {
              return Preference(*a, need) < Preference(*b, need);
            });
  placement.devices = FirstOfOneKind(candidates, need.devices);
  if (!placement.devices.empty()) placement.fit = Fit::kNow;
  return placement;
}

absl::btree_set<DeviceId> DevicesToHold(const State& state, const Need& need) {
  Candidates candidates;
  for (const auto& [id, device] : state.devices()) {
    if (IsWorthHolding(device, need)) candidates.push_back(&device);
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Device* a, const Device* b) {
                     return a->free_bytes() > b->free_bytes();
                   });
  const std::vector<DeviceId> chosen = FirstOfOneKind(candidates, need.devices);
  return {chosen.begin(), chosen.end()};
}

bool AreWorthHolding(const State& state, const Need& need,
                     const absl::btree_set<DeviceId>& devices) {
  return std::all_of(devices.begin(), devices.end(), [&](DeviceId id) {
    return IsWorthHolding(state.devices().at(id), need);
  });
}

std::string DevicesText(const Need& need) {
  const bool any = need.device_kind.empty();
  if (need.devices == 1) {
    return absl::StrCat("a ", need.device_kind, any ? "" : " ", "device");
  }
  if (any) return absl::StrCat(need.devices, " devices of one kind");
  return absl::StrCat(need.devices, " ", need.device_kind, " devices");
}

std::string HeldBackText(const Placement& placement) {
  if (placement.held_back == nullptr) return "";
  const Device& device = *placement.held_back;
  return absl::StrCat("; a memory fraction of ", device.fraction,
                      " keeps it off ", device.name, ", which has ",
                      FormatBytes(device.full_bytes),
                      ": raise it with `gpupool devices fraction`");
}

std::string NeverFitsText(const Need& need, const Placement& placement) {
  const std::string bytes = FormatBytes(need.bytes);
  if (need.devices > 1) {
    const std::string needs = absl::StrCat(
        "never fits: needs ", DevicesText(need), " with ", bytes, " each");
    if (placement.kinds.empty()) return absl::StrCat(needs, "; there is none");
    return absl::StrCat(
        needs, "; large enough are ",
        absl::StrJoin(placement.kinds, " and ",
                      [](std::string* text, const KindCount& count) {
                        absl::StrAppend(text, count.large_enough, " of ",
                                        count.devices, " ", count.kind,
                                        " devices");
                      }));
  }
  const std::string kind =
      need.device_kind.empty() ? "" : absl::StrCat(need.device_kind, " ");
  if (placement.largest_limit == 0) {
    return absl::StrCat("never fits: needs ", bytes, ", but there is no ", kind,
                        "device");
  }
  return absl::StrCat("never fits: needs ", bytes, ", the largest ", kind,
                      "device has ", FormatBytes(placement.largest_limit));
}

}  // namespace gpupool::scheduler
