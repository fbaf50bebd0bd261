#include "scheduler/queue_policy.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/backfill_policy.h"
#include "scheduler/placement_policy.h"

namespace gpupool::scheduler {
namespace {

std::string AheadText(size_t ahead) {
  if (ahead == 0) return "it is next";
  if (ahead == 1) return "1 job is ahead";
  return absl::StrCat(ahead, " jobs are ahead");
}

// The ready device of the kind with the most free bytes.
const Device* Freest(const State& state, const Job& job) {
  const Device* best = nullptr;
  for (const auto& [id, device] : state.devices()) {
    if (!device.ready) continue;
    if (!job.device_kind.empty() && device.kind != job.device_kind) continue;
    if (best == nullptr || device.free_bytes() > best->free_bytes()) {
      best = &device;
    }
  }
  return best;
}

// True when everything that could make room is a served version.
bool OnlyVersionsInTheWay(const State& state, const Job& job,
                          const Placement& placement) {
  const bool enough_are_ready = std::any_of(
      placement.kinds.begin(), placement.kinds.end(),
      [&](const KindCount& count) { return count.ready >= job.device_count; });
  return enough_are_ready && DevicesToHold(state, NeedOf(job)).empty();
}

std::string FreeText(const Placement& placement) {
  uint32_t free = 0;
  for (const KindCount& count : placement.kinds) {
    free = std::max(free, count.free);
  }
  if (free == 0) return "none is free";
  return free == 1 ? "1 is free" : absl::StrCat(free, " are free");
}

std::string RoomText(const Job& job, const Placement& placement,
                     const Device& freest) {
  const std::string bytes = FormatBytes(job.bytes);
  if (job.device_count > 1) {
    return absl::StrCat("waits for ", DevicesText(NeedOf(job)), " with ", bytes,
                        " each; ", FreeText(placement));
  }
  return absl::StrCat("waits for ", bytes, " on a device; the largest free is ",
                      FormatBytes(freest.free_bytes()), " on ", freest.name);
}

std::string ReasonFor(const State& state, const Job& job, size_t ahead) {
  const std::string suffix = absl::StrCat("; ", AheadText(ahead));
  if (state.draining()) return "the server is draining and starts no jobs";
  if (state.starts_held()) {
    return absl::StrCat("plans are made again first", suffix);
  }
  if (const Device* device = state.StrayDevice(job.id)) {
    return absl::StrCat("waits for an earlier attempt to stop on ",
                        device->name, suffix);
  }
  const Placement placement = Place(state, NeedOf(job));
  if (placement.fit == Fit::kNever) {
    return NeverFitsText(NeedOf(job), placement);
  }
  const Device* freest = Freest(state, job);
  if (freest == nullptr) {
    return absl::StrCat("waits for ", DevicesText(NeedOf(job)),
                        ": their workers are starting", suffix);
  }
  if (placement.fit == Fit::kNow) return absl::StrCat("about to start", suffix);
  return absl::StrCat(
      RoomText(job, placement, *freest),
      OnlyVersionsInTheWay(state, job, placement)
          ? "; served models hold the rest: unload one to make room"
          : "",
      HeldBackText(placement), suffix);
}

}  // namespace

Need NeedOf(const Job& job) {
  return {job.bytes, job.device_kind, job.device_count, job.id};
}

std::vector<const Job*> Candidates(const State& state) {
  std::vector<const Job*> jobs;
  for (const auto& [shape, keys] : state.shapes()) {
    for (const QueueKey& key : keys) {
      const Job& job = state.jobs().at(key.job);
      if (!job.reserved_devices.empty()) continue;
      if (state.StrayDevice(key.job) != nullptr) continue;
      jobs.push_back(&job);
      break;
    }
  }
  const auto goes_first = [](const Job* a, const Job* b) {
    return KeyOf(*a) < KeyOf(*b);
  };
  std::sort(jobs.begin(), jobs.end(), goes_first);
  if (jobs.size() > kMaxScan) jobs.resize(kMaxScan);
  // Always looked at: what is reserved for them stands idle meanwhile.
  for (JobId id : state.reserving()) jobs.push_back(&state.jobs().at(id));
  std::sort(jobs.begin(), jobs.end(), goes_first);
  return jobs;
}

std::optional<NextStart> ChooseNext(const State& state,
                                    const absl::btree_set<DeviceId>& held,
                                    absl::Time now) {
  if (state.policy().order == Order::kBackfill) {
    return ChooseBackfill(state, held, now);
  }
  NextStart next;
  absl::btree_set<DeviceId> excluded = held;
  const FreeDevices free(state);
  // Only where nobody gives way does it matter who was passed.
  const bool counts = !state.policy().by_standing();
  for (const Job* job : Candidates(state)) {
    if (!counts && !free.MayHold(NeedOf(*job))) continue;
    Placement placement = Place(state, NeedOf(*job), excluded);
    if (placement.fit == Fit::kNow) {
      next.job = job->id;
      next.devices = std::move(placement.devices);
      return next;
    }
    // A job that fits nowhere even in an empty pool is not being passed.
    if (placement.fit == Fit::kNever) continue;
    if (counts) next.passed.push_back(job->id);
    excluded.insert(job->held_devices.begin(), job->held_devices.end());
  }
  return std::nullopt;
}

absl::btree_map<JobId, std::string> WaitingReasons(const State& state,
                                                   size_t limit) {
  absl::btree_map<JobId, std::string> reasons;
  for (const QueueKey& key : state.queue()) {
    if (reasons.size() >= limit) break;
    const size_t ahead = reasons.size();
    reasons[key.job] = ReasonFor(state, state.jobs().at(key.job), ahead);
  }
  return reasons;
}

}  // namespace gpupool::scheduler
