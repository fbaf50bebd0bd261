#include "scheduler/explain/kept_devices.h"

#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "scheduler/place/obstacle.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/yield/serving_policy.h"

namespace gpupool::scheduler {

Keepers KeepersBefore(const State& state, const Job& job) {
  Keepers keepers;
  for (const QueueKey& key : state.queue()) {
    if (key.job == job.id) break;
    const Job& before = state.jobs().at(key.job);
    if (!before.held_devices.empty()) keepers.push_back(&before);
  }
  return keepers;
}

KeptDevices KeptFrom(const State& state, const Job& job, const Keepers& ahead) {
  KeptDevices kept;
  for (const Job* keeper : ahead) {
    // Such a keeper would take back what it needs: keep nothing from the job.
    if (keeper->queue != job.queue &&
        state.queues().TakesFrom(keeper->queue, job.queue)) {
      continue;
    }
    for (DeviceId id : keeper->held_devices) kept.emplace(id, keeper->id);
  }
  return kept;
}

std::string KeeperText(const State& state, JobId keeper) {
  return absl::StrCat("job ", keeper.value(),
                      state.jobs().at(keeper).demands.exclusive
                          ? ", which wants it to itself"
                          : ", which is ahead");
}

std::optional<std::string> KeptText(const State& state, const Job& job,
                                    const Keepers& ahead) {
  const KeptDevices kept = KeptFrom(state, job, ahead);
  if (kept.empty()) return std::nullopt;
  absl::btree_set<DeviceId> excluded;
  for (const auto& [device, keeper] : kept) excluded.insert(device);
  for (const auto& [device, version] : DevicesUnderLoad(state)) {
    excluded.insert(device);
  }
  const Need need = NeedOf(state, job);
  if (Place(state, need, excluded).fit == Fit::kNow) return std::nullopt;
  for (const auto& [id, keeper] : kept) {
    const Device& device = state.devices().at(id);
    if (ObstacleFor(state, device, need)) continue;
    return absl::StrCat(device.name, " is kept free for ",
                        KeeperText(state, keeper));
  }
  return std::nullopt;
}

}  // namespace gpupool::scheduler
