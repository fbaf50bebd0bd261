#include "scheduler/placement_policy.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"

namespace gpupool::scheduler {
namespace {

bool KindMatches(const Device& device, const Need& need) {
  return need.device_kind.empty() || device.kind == need.device_kind;
}

// Smaller is better.
auto Rank(const Device& device, const Need& need) {
  return std::make_tuple(device.jobs.size() + device.stray_attempts.size(),
                         device.versions.size(),
                         device.free_bytes() - need.bytes, device.id);
}

}  // namespace

Placement Place(const State& state, const Need& need,
                const absl::btree_set<DeviceId>& excluded) {
  Placement placement;
  const Device* best = nullptr;
  for (const auto& [id, device] : state.devices()) {
    if (!KindMatches(device, need)) continue;
    placement.largest_limit =
        std::max(placement.largest_limit, device.limit_bytes);
    if (need.bytes <= device.limit_bytes) placement.fit = Fit::kNotNow;
    if (!device.ready) continue;
    placement.any_ready = true;
    if (excluded.contains(id)) continue;
    placement.largest_free =
        std::max(placement.largest_free, device.free_bytes());
    if (device.free_bytes() < need.bytes) continue;
    if (best == nullptr || Rank(device, need) < Rank(*best, need)) {
      best = &device;
    }
  }
  if (best != nullptr) {
    placement.fit = Fit::kNow;
    placement.device = best->id;
  }
  return placement;
}

std::optional<DeviceId> DeviceToHold(const State& state, const Need& need) {
  const Device* best = nullptr;
  for (const auto& [id, device] : state.devices()) {
    if (!KindMatches(device, need) || !device.ready) continue;
    const uint64_t stays = device.version_bytes;
    if (stays > device.limit_bytes) continue;
    if (device.limit_bytes - stays < need.bytes) continue;
    if (best == nullptr || device.free_bytes() > best->free_bytes()) {
      best = &device;
    }
  }
  if (best == nullptr) return std::nullopt;
  return best->id;
}

std::string NeverFitsText(const Need& need, const Placement& placement) {
  const std::string kind =
      need.device_kind.empty() ? "" : absl::StrCat(need.device_kind, " ");
  if (placement.largest_limit == 0) {
    return absl::StrCat("never fits: needs ", FormatBytes(need.bytes),
                        ", but there is no ", kind, "device");
  }
  return absl::StrCat("never fits: needs ", FormatBytes(need.bytes),
                      ", the largest ", kind, "device has ",
                      FormatBytes(placement.largest_limit));
}

}  // namespace gpupool::scheduler
