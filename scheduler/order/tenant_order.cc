#include "scheduler/order/tenant_order.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"

namespace gpupool::scheduler {
namespace {

// Sorts jobs whose tenants share their path down to `depth`. Compares siblings
// on this level first and then sorts each group below it.
void SortBelow(const State& state, absl::Span<const Job*> jobs, size_t depth) {
  struct Group {
    double standing = 0;
    std::vector<const Job*> jobs;
  };
  const QueuePolicy& policy = state.policy();
  absl::btree_map<absl::string_view, Group> groups;
  for (const Job* job : jobs) {
    const std::vector<absl::string_view> path = PathOf(job->tenant);
    // Jobs of a parent compete with its children as one more sibling.
    groups[path[std::min(depth, path.size() - 1)]].jobs.push_back(job);
  }
  std::vector<std::pair<absl::string_view, Group*>> order;
  for (auto& [path, group] : groups) {
    group.standing = state.usage().Standing(path, policy.tenants, state.now(),
                                            policy.usage_half_life);
    order.emplace_back(path, &group);
  }
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    if (a.second->standing != b.second->standing) {
      return a.second->standing < b.second->standing;
    }
    return KeyOf(*a.second->jobs.front()) < KeyOf(*b.second->jobs.front());
  });
  size_t at = 0;
  for (const auto& [path, group] : order) {
    std::copy(group->jobs.begin(), group->jobs.end(), jobs.begin() + at);
    const absl::Span<const Job*> part = jobs.subspan(at, group->jobs.size());
    at += part.size();
    const bool deeper = std::any_of(part.begin(), part.end(),
                                    [size = path.size()](const Job* job) {
                                      return job->tenant.size() > size;
                                    });
    if (deeper) SortBelow(state, part, depth + 1);
  }
}

}  // namespace

absl::btree_set<JobId> GuaranteedJobs(const State& state) {
  absl::btree_set<JobId> guaranteed;
  const TenantShares& tenants = state.policy().tenants;
  absl::btree_map<absl::string_view, uint32_t> used;  // devices by path
  for (const auto& [id, job] : state.jobs()) {
    if (!job.HoldsDevices()) continue;
    for (absl::string_view path : PathOf(job.tenant)) {
      auto share = tenants.find(path);
      if (share == tenants.end() || !share->second.guaranteed) continue;
      uint32_t& devices = used[path];
      if (devices + job.device_count > *share->second.guaranteed) continue;
      devices += job.device_count;
      guaranteed.insert(id);
    }
  }
  return guaranteed;
}

void SortByShare(const State& state, absl::Span<const Job*> jobs) {
  SortBelow(state, jobs, 0);
}

}  // namespace gpupool::scheduler
