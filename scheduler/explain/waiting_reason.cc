#include "scheduler/explain/waiting_reason.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/explain/kept_devices.h"
#include "scheduler/place/obstacle.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/state/counted.h"
#include "scheduler/yield/serving_policy.h"

namespace gpupool::scheduler {
namespace {

// Returns the first place of the queue.
auto FirstIn(const State& state, uint32_t queue) {
  return state.queue().lower_bound(
      QueueKey{.queue = queue, .priority = std::numeric_limits<int>::max()});
}

// Returns " in queue 'short'", or "" when that is the job's own and the only
// one.
std::string InQueueText(const State& state, const Job& job) {
  const std::string& name = state.QueueOf(job).name;
  const bool is_own = job.queue_name.empty() || job.queue_name == name;
  if (is_own && state.queues().size() == 1) return "";
  return is_own ? absl::StrCat(" in queue '", name, "'")
                : absl::StrCat(" in queue '", name, "', where it is since '",
                               job.queue_name, "' is no longer configured");
}

// Returns how many jobs wait in queues of higher rank, or "".
std::string AboveText(const State& state, const Job& job) {
  uint64_t jobs = 0;
  for (uint32_t i = 0; i < state.queues().size(); ++i) {
    if (!state.queues().IsAbove(i, job.queue)) continue;
    jobs += state.queues().at(i).waiting_jobs;
  }
  if (jobs == 0) return "";
  return absl::StrCat("; in queues of higher rank ", Counted(jobs, "job"),
                      jobs == 1 ? " waits" : " wait");
}

std::string AheadText(const State& state, const Job& job, size_t ahead) {
  const bool by_tenant = state.QueueOf(job).order == Order::kFairShare;
  const std::string whose = absl::StrCat(
      by_tenant ? absl::StrCat(" of tenant '", job.tenant, "'") : "",
      InQueueText(state, job));
  const std::string above = AboveText(state, job);
  if (ahead == 0) return absl::StrCat("it is next", whose, above);
  if (ahead == 1) return absl::StrCat("1 job", whose, " is ahead", above);
  return absl::StrCat(ahead, " jobs", whose, " are ahead", above);
}

// Returns the device with the most free bytes among those where a job that
// needs none could start once others have left; null when there is none.
const Device* Freest(const State& state, const Job& job) {
  Need need = NeedOf(state, job);
  need.bytes = 0;
  need.demands.exclusive = false;
  const Device* best = nullptr;
  for (const auto& [id, device] : state.devices()) {
    Meanwhile until = WhenEmptied(device);
    until.cooled = false;
    if (ObstacleFor(state, device, need, until)) continue;
    if (best == nullptr || device.free_bytes() > best->free_bytes()) {
      best = &device;
    }
  }
  return best;
}

// Returns true when only served versions could make room.
bool OnlyVersionsInTheWay(const State& state, const Job& job,
                          const Placement& placement) {
  const bool enough_are_ready = std::any_of(
      placement.kinds.begin(), placement.kinds.end(),
      [&](const KindCount& count) { return count.ready >= job.device_count; });
  return enough_are_ready && DevicesToHold(state, NeedOf(state, job)).empty();
}

std::string FreeText(const Placement& placement) {
  uint32_t free = 0;
  for (const KindCount& count : placement.kinds) {
    free = std::max(free, count.free);
  }
  if (free == 0) return "none is free";
  return free == 1 ? "1 is free" : absl::StrCat(free, " are free");
}

// Returns the text for a job that lacks host room, or nothing when a machine
// has enough for one of its devices.
std::optional<std::string> HostRoomText(const State& state, const Job& job) {
  if (job.demands.host.none()) return std::nullopt;
  HostNeed most;
  for (const auto& [id, device] : state.devices()) {
    if (!DeviceMatches(device, NeedOf(state, job))) continue;
    const Machine& machine = state.machines()[device.machine];
    if (machine.Holds(job.demands.host) > 0) return std::nullopt;
    most.milli_cores = std::max(most.milli_cores, machine.free().milli_cores);
    most.bytes = std::max(most.bytes, machine.free().bytes);
  }
  return absl::StrCat("waits for ", HostText(job.demands.host),
                      " of a machine; others leave ",
                      static_cast<double>(most.milli_cores) / 1000,
                      " cores and ", FormatBytes(most.bytes), " at most");
}

// Returns "; on cpu:0 are 2 jobs and 1 model", or "" when the device is empty.
std::string AreThereText(const Device& device) {
  const size_t jobs = device.jobs.size() + device.stray_attempts.size();
  const size_t models = device.versions.size() + device.stray_versions.size();
  if (jobs + models == 0) return "";
  return absl::StrCat("; on ", device.name,
                      jobs + models == 1 ? " is " : " are ",
                      jobs == 0 ? "" : Counted(jobs, "job"),
                      jobs > 0 && models > 0 ? " and " : "",
                      models == 0 ? "" : Counted(models, "model"));
}

// Returns which room the job waits for, and how much there is.
std::string RoomText(const State& state, const Job& job,
                     const Placement& placement, const Device& freest) {
  if (auto text = HostRoomText(state, job)) return *text;
  const auto [bytes, free] = FormatBytePair(job.bytes, freest.free_bytes());
  const Need need = NeedOf(state, job);
  const std::string taken = TakenText(state, need);
  if (job.device_count > 1) {
    return absl::StrCat("waits for ", DevicesText(need), " with ", bytes,
                        " each; ", FreeText(placement), taken);
  }
  if (job.demands.exclusive) {
    return absl::StrCat("waits for ", DevicesText(need), " (exclusive: true)",
                        taken.empty() ? AreThereText(freest) : taken);
  }
  if (NamesDevice(job.wanted_device)) {
    return absl::StrCat("waits for ", job.wanted_device, ": it needs ", bytes,
                        " there, ", free, " are free", taken);
  }
  return absl::StrCat("waits for ", bytes, " on ", DevicesText(need),
                      "; the largest free is ", free, " on ", freest.name,
                      taken);
}

// Returns the device that ends its cool-down first, of those where nothing else
// is in the way; null when there is none.
const Device* InTheWayByCooling(const State& state, const Job& job) {
  const Need need = NeedOf(state, job);
  const Device* first = nullptr;
  for (const auto& [id, device] : state.devices()) {
    if (!device.cools() || ObstacleFor(state, device, need, {.cooled = true})) {
      continue;
    }
    if (first == nullptr || device.cools_until < first->cools_until) {
      first = &device;
    }
  }
  return first;
}

// Names the first device where only a tenant's reservation keeps the job from
// starting in time, or returns "".
std::string ReservedDeviceText(const State& state, const Job& job) {
  if (state.reservations().empty()) return "";
  const Need need = NeedOf(state, job);
  for (const auto& [id, device] : state.devices()) {
    const TenantReservation* against = ReservationAgainst(state, id, need);
    if (against == nullptr) continue;
    Meanwhile until = WhenEmptied(device);
    until.reservation_over = true;
    if (ObstacleFor(state, device, need, until)) continue;
    return absl::StrCat("device ",
                        ReservedText(device.name, *against, state.now()));
  }
  return "";
}

std::string CoolingText(const Device& device) {
  return absl::StrCat(
      device.name, " cools down until ",
      absl::FormatTime("%H:%M:%S UTC", device.cools_until, absl::UTCTimeZone()),
      " after ", FaultsText(device));
}

std::string AfterText(const absl::btree_set<JobId>& jobs,
                      absl::string_view what) {
  const auto add = [](std::string* out, JobId id) {
    absl::StrAppend(out, id.value());
  };
  return absl::StrCat("waits for ", jobs.size() == 1 ? "job " : "jobs ",
                      absl::StrJoin(jobs, ", ", add), " to ", what);
}

// Returns the reason of a job that waits outside the queue.
std::string AsideText(const State& state, const Job& job) {
  if (job.held) {
    return absl::StrCat("held; `gpupool release ", job.id.value(),
                        "` lets it start");
  }
  if (job.over_limit) {
    return AtOnceText(job.array, state.arrays().at(job.array));
  }
  if (!job.after_ok.empty()) return AfterText(job.after_ok, "succeed");
  if (!job.after_any.empty()) return AfterText(job.after_any, "end");
  return "is tried alone before it gets a device";
}

// Returns the text for a job that would fit but for devices under load, or
// nothing when it also fits elsewhere.
std::optional<std::string> UnderLoadText(const State& state, const Job& job) {
  const auto loaded = DevicesUnderLoad(state);
  if (loaded.empty()) return std::nullopt;
  absl::btree_set<DeviceId> excluded;
  for (const auto& [device, version] : loaded) excluded.insert(device);
  if (Place(state, NeedOf(state, job), excluded).fit == Fit::kNow)
    return std::nullopt;
  const auto& [device, version] = *loaded.begin();
  return absl::StrCat("waits for ", DevicesText(NeedOf(state, job)), ": ",
                      state.devices().at(device).name, " is left to ",
                      ModelTextFor(state.versions().at(version), job.tenant),
                      ", which is under load");
}

// The jobs ahead of a job.
struct Ahead {
  size_t jobs = 0;  // jobs of its group
  Keepers keepers;
};

// Returns why a job still waits although there is room.
std::string StartText(const State& state, const Job& job, const Ahead& ahead) {
  if (auto text = UnderLoadText(state, job)) return *text;
  if (auto text = KeptText(state, job, ahead.keepers)) return *text;
  if (ahead.jobs > 0 && state.QueueOf(job).order == Order::kBackfill) {
    return "there is room, but it would delay a job that is ahead";
  }
  return "about to start";
}

// Returns "tenant 'a' may use 2 devices at once and uses 2; it needs 1", or the
// same with bytes.
std::string TenantLimitText(const State& state, const Job& job,
                            const std::string& level) {
  const TenantShares& tenants = state.policy().tenants;
  const TenantShare& share = tenants.find(level)->second;
  const TenantUsage& usage = state.usage();
  if (usage.ExceedsDevices(level, job.device_count, tenants)) {
    return absl::StrCat("tenant '", level, "' may use ",
                        Counted(*share.most, "device"), " at once and uses ",
                        usage.Devices(level), "; it needs ", job.device_count);
  }
  return absl::StrCat(
      "jobs of tenant '", level, "' may use ",
      FormatBytes(*share.most_device_bytes), " of devices at once and use ",
      FormatBytes(usage.Bytes(level)), "; it needs ", FormatBytes(job.bytes),
      job.device_count > 1
          ? absl::StrCat(" on each of ", job.device_count, " devices")
          : "");
}

// Returns the sentence for a queued job. Checks come from the most general
// obstacle (the server drains) to the most specific (bytes on a device), so
// that the sentence names the first that must go.
std::string ReasonFor(const State& state, const Job& job, const Ahead& ahead) {
  const std::string suffix =
      absl::StrCat("; ", AheadText(state, job, ahead.jobs));
  if (state.draining()) return "the server is draining and starts no jobs";
  if (state.starts_held()) {
    return absl::StrCat("plans are made again first", suffix);
  }
  if (const Device* device = state.StrayDevice(job.id)) {
    return absl::StrCat("waits for an earlier attempt to stop on ",
                        device->name, suffix);
  }
  const Placement placement = Place(state, NeedOf(state, job));
  if (placement.fit == Fit::kNever) {
    return NeverFitsText(NeedOf(state, job), placement);
  }
  if (auto level = state.usage().LevelAtLimit(
          job.tenant, {job.device_count, job.bytes}, state.policy().tenants)) {
    return absl::StrCat(TenantLimitText(state, job, *level), suffix);
  }
  if (state.queues().IsFull(job.queue, job.device_count)) {
    const Queues::Entry& entry = state.queues().at(job.queue);
    return absl::StrCat("jobs in queue '", entry.queue.name, "' may use ",
                        Counted(*entry.queue.most, "device"),
                        " at once and use ", entry.held_devices, "; it needs ",
                        job.device_count, suffix);
  }
  const Device* freest = Freest(state, job);
  const std::string reserved = ReservedDeviceText(state, job);
  if (freest == nullptr && !reserved.empty()) {
    return absl::StrCat("waits: ", reserved, suffix);
  }
  const Device* cooling = InTheWayByCooling(state, job);
  if (cooling != nullptr && freest == nullptr) {
    return absl::StrCat("waits: ", CoolingText(*cooling), suffix);
  }
  if (freest == nullptr) {
    return absl::StrCat("waits for ", DevicesText(NeedOf(state, job)),
                        placement.drained != nullptr ? DrainedText(placement)
                        : NamesDevice(job.wanted_device)
                            ? ": its worker is starting"
                            : ": their workers are starting",
                        suffix);
  }
  if (placement.fit == Fit::kNow) {
    return absl::StrCat(StartText(state, job, ahead), suffix);
  }
  return absl::StrCat(
      RoomText(state, job, placement, *freest),
      reserved.empty() && OnlyVersionsInTheWay(state, job, placement)
          ? "; served models hold the rest: unload some of them to make room"
          : "",
      reserved.empty() ? "" : absl::StrCat("; ", reserved),
      cooling == nullptr ? "" : absl::StrCat("; ", CoolingText(*cooling)),
      HeldBackText(placement), DrainedText(placement), suffix);
}

}  // namespace

std::string WaitingReason(const State& state, const Job& job) {
  if (job.Saves()) {
    return absl::StrCat("its checkpoint is being written to disk; ",
                        job.HoldsDevices() ? "its other ranks are stopping"
                                           : "it holds no device any more");
  }
  if (!job.MayStart()) return AsideText(state, job);
  const auto place = state.queue().find(KeyOf(job));
  const auto ahead = std::distance(FirstIn(state, job.queue), place);
  return ReasonFor(state, job,
                   {static_cast<size_t>(ahead), KeepersBefore(state, job)});
}

absl::btree_map<JobId, std::string> WaitingReasons(const State& state,
                                                   size_t limit) {
  absl::btree_map<JobId, std::string> reasons;
  absl::btree_map<WaitingGroup, size_t> aheads;
  Ahead ahead;
  for (const QueueKey& key : state.queue()) {
    if (reasons.size() >= limit) break;
    const Job& job = state.jobs().at(key.job);
    ahead.jobs = aheads[state.GroupOf(job)]++;
    reasons[key.job] = ReasonFor(state, job, ahead);
    if (!job.held_devices.empty()) ahead.keepers.push_back(&job);
  }
  for (JobId id : state.aside()) {
    if (reasons.size() >= limit) break;
    reasons[id] = AsideText(state, state.jobs().at(id));
  }
  return reasons;
}

}  // namespace gpupool::scheduler
