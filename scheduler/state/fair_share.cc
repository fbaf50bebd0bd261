#include "scheduler/state/fair_share.h"

#include <algorithm>
#include <cmath>

namespace gpupool::scheduler {
namespace {

// Mean below which a tenant without devices is forgotten.
constexpr double kFaded = 1e-9;

double ShareWeight(const TenantShares& shares, absl::string_view path) {
  auto share = shares.find(path);
  return share == shares.end() ? 1 : share->second.weight;
}

template <typename Entries>
auto& EntryOf(Entries& entries, absl::string_view kind) {
  for (auto& entry : entries) {
    if (entry.kind == kind) return entry;
  }
  return entries.emplace_back(
      typename Entries::value_type{.kind = std::string(kind)});
}

}  // namespace

std::vector<absl::string_view> PathOf(absl::string_view tenant) {
  std::vector<absl::string_view> path;
  for (size_t at = 0; at < tenant.size(); ++at) {
    at = std::min(tenant.find('.', at), tenant.size());
    path.push_back(tenant.substr(0, at));
  }
  if (path.empty() || path.back().size() != tenant.size()) {
    path.push_back(tenant);
  }
  return path;
}

void TenantUsage::AddCapacity(absl::string_view kind, int64_t devices,
                              int64_t bytes) {
  Held& capacity = EntryOf(capacity_, kind);
  capacity.devices += devices;
  capacity.bytes += bytes;
}

void TenantUsage::Take(const Use& use, absl::Time now,
                       absl::Duration half_life) {
  Change(use, 1, now, half_life);
}

void TenantUsage::GiveBack(const Use& use, absl::Time now,
                           absl::Duration half_life) {
  Change(use, -1, now, half_life);
}

void TenantUsage::Change(const Use& use, int64_t devices, absl::Time now,
                         absl::Duration half_life) {
  if (nodes_.size() >= most_nodes_) DropFaded(now, half_life);
  for (absl::string_view path : PathOf(use.tenant)) {
    Node& node = nodes_[std::string(path)];
    node.mean = MeanAt(node, now, half_life);
    node.since = now;
    Held& held = EntryOf(node.held, use.kind);
    held.devices += devices;
    held.bytes += devices * static_cast<int64_t>(use.bytes);
    node.devices += devices;
    node.bytes += devices * static_cast<int64_t>(use.bytes);
    node.share = ShareOf(node);
  }
}

void TenantUsage::Remember(const Past& past, absl::Time now,
                           absl::Duration half_life) {
  if (half_life <= absl::ZeroDuration()) return;
  // Replays the job as a tenant of its own: it held its share for `run` and has
  // decayed since.
  Node job;
  job.held.push_back({past.kind, past.devices,
                      static_cast<int64_t>(past.devices * past.bytes)});
  job.share = ShareOf(job);
  job.since = std::min(past.end, now) - past.run;
  job.mean = MeanAt(job, std::min(past.end, now), half_life);
  job.since = std::min(past.end, now);
  job.share = 0;
  const double mean = MeanAt(job, now, half_life);
  if (nodes_.size() >= most_nodes_) DropFaded(now, half_life);
  for (absl::string_view path : PathOf(past.tenant)) {
    Node& node = nodes_[std::string(path)];
    node.mean = MeanAt(node, now, half_life) + mean;
    node.since = now;
  }
}

// Returns the dominant share: the largest part of any kind's devices or bytes.
double TenantUsage::ShareOf(const Node& node) const {
  double share = 0;
  for (const Held& held : node.held) {
    for (const Held& capacity : capacity_) {
      if (capacity.kind != held.kind) continue;
      const auto part = [](int64_t some, int64_t all) {
        return all > 0 ? static_cast<double>(some) / static_cast<double>(all)
                       : 0.0;
      };
      share = std::max({share, part(held.devices, capacity.devices),
                        part(held.bytes, capacity.bytes)});
    }
  }
  return share;
}

// Returns the exponentially decayed mean at `now`: the share has been constant
// since `since`, so one closed form replaces periodic decay.
double TenantUsage::MeanAt(const Node& node, absl::Time now,
                           absl::Duration half_life) {
  if (half_life <= absl::ZeroDuration()) return 0;
  if (now <= node.since) return node.mean;
  const double kept =
      std::exp2(-absl::FDivDuration(now - node.since, half_life));
  return kept * node.mean + (1 - kept) * node.share;
}

void TenantUsage::DropFaded(absl::Time now, absl::Duration half_life) {
  absl::erase_if(nodes_, [&](const auto& entry) {
    const Node& node = entry.second;
    return node.devices == 0 && MeanAt(node, now, half_life) < kFaded;
  });
  // Doubling makes the scan amortized constant for each change.
  most_nodes_ = std::max<size_t>(1024, 2 * nodes_.size());
}

uint32_t TenantUsage::Devices(absl::string_view path) const {
  auto node = nodes_.find(path);
  return node == nodes_.end() ? 0 : node->second.devices;
}

uint64_t TenantUsage::Bytes(absl::string_view path) const {
  auto node = nodes_.find(path);
  return node == nodes_.end() ? 0 : static_cast<uint64_t>(node->second.bytes);
}

double TenantUsage::DominantShare(absl::string_view path) const {
  auto node = nodes_.find(path);
  return node == nodes_.end() ? 0 : node->second.share;
}

double TenantUsage::Standing(absl::string_view path, const TenantShares& shares,
                             absl::Time now, absl::Duration half_life) const {
  auto node = nodes_.find(path);
  if (node == nodes_.end()) return 0;
  const double mean = MeanAt(node->second, now, half_life);
  return (mean + node->second.share) / 2 / ShareWeight(shares, path);
}

std::optional<std::string> TenantUsage::LevelAtLimit(
    absl::string_view tenant, const Ask& more,
    const TenantShares& shares) const {
  if (shares.empty()) return std::nullopt;
  for (absl::string_view path : PathOf(tenant)) {
    auto share = shares.find(path);
    if (share == shares.end()) continue;
    if (ExceedsDevices(path, more.devices, shares)) return std::string(path);
    if (!share->second.most_device_bytes) continue;
    const uint64_t limit = *share->second.most_device_bytes;
    const uint64_t used = Bytes(path);
    // Divides, because the product could overflow.
    if (used > limit ||
        (more.bytes > 0 && more.devices > (limit - used) / more.bytes)) {
      return std::string(path);
    }
  }
  return std::nullopt;
}

bool TenantUsage::ExceedsDevices(absl::string_view path, uint32_t more,
                                 const TenantShares& shares) const {
  auto share = shares.find(path);
  return share != shares.end() && share->second.most &&
         uint64_t{Devices(path)} + more > *share->second.most;
}

bool TenantUsage::IsGuaranteed(absl::string_view tenant, uint32_t more,
                               const TenantShares& shares) const {
  if (shares.empty()) return false;
  for (absl::string_view path : PathOf(tenant)) {
    auto share = shares.find(path);
    if (share == shares.end() || !share->second.guaranteed) continue;
    if (uint64_t{Devices(path)} + more <= *share->second.guaranteed) {
      return true;
    }
  }
  return false;
}

bool HasGuarantees(const TenantShares& tenants) {
  return std::any_of(tenants.begin(), tenants.end(), [](const auto& tenant) {
    return tenant.second.guaranteed.has_value();
  });
}

}  // namespace gpupool::scheduler
