#include "scheduler/queue_policy.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "scheduler/backfill_policy.h"
#include "scheduler/free_devices.h"
#include "scheduler/placement_policy.h"
#include "scheduler/serving_policy.h"
#include "scheduler/tenant_order.h"

namespace gpupool::scheduler {
namespace {

std::optional<std::string> LevelAtLimit(const State& state,
                                        absl::string_view tenant,
                                        uint32_t devices) {
  return state.usage().LevelAtLimit(tenant, devices, state.policy().tenants);
}

std::string AheadText(const State& state, const Job& job, size_t ahead) {
  const std::string whose = state.policy().order == Order::kFairShare
                                ? absl::StrCat(" of tenant '", job.tenant, "'")
                                : "";
  if (ahead == 0) return absl::StrCat("it is next", whose);
  if (ahead == 1) return absl::StrCat("1 job", whose, " is ahead");
  return absl::StrCat(ahead, " jobs", whose, " are ahead");
}

// The ready device of the kind with the most free bytes.
const Device* Freest(const State& state, const Job& job) {
  const Device* best = nullptr;
  for (const auto& [id, device] : state.devices()) {
    if (!device.takes_jobs()) continue;
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

// Nothing when some machine of the kind has enough for one device of it.
std::optional<std::string> HostRoomText(const State& state, const Job& job) {
  if (job.host.none()) return std::nullopt;
  HostNeed most;
  for (const auto& [id, device] : state.devices()) {
    if (!KindMatches(device, NeedOf(job))) continue;
    const Machine& machine = state.machines()[device.machine];
    if (machine.Holds(job.host) > 0) return std::nullopt;
    most.milli_cores = std::max(most.milli_cores, machine.free().milli_cores);
    most.bytes = std::max(most.bytes, machine.free().bytes);
  }
  return absl::StrCat("waits for ", HostText(job.host),
                      " of a machine; others leave ",
                      static_cast<double>(most.milli_cores) / 1000,
                      " cores and ", FormatBytes(most.bytes), " at most");
}

std::string RoomText(const State& state, const Job& job,
                     const Placement& placement, const Device& freest) {
  if (auto text = HostRoomText(state, job)) return *text;
  const std::string bytes = FormatBytes(job.bytes);
  if (job.device_count > 1) {
    return absl::StrCat("waits for ", DevicesText(NeedOf(job)), " with ", bytes,
                        " each; ", FreeText(placement));
  }
  return absl::StrCat("waits for ", bytes, " on a device; the largest free is ",
                      FormatBytes(freest.free_bytes()), " on ", freest.name);
}

// A device where it could start but for the cool-down, the first to end; null
// when there is none.
const Device* InTheWayByCooling(const State& state, const Job& job) {
  const Device* first = nullptr;
  for (const auto& [id, device] : state.devices()) {
    if (!device.ready || !device.cools() || !KindMatches(device, NeedOf(job)) ||
        device.free_bytes() < job.bytes) {
      continue;
    }
    if (first == nullptr || device.cools_until < first->cools_until) {
      first = &device;
    }
  }
  return first;
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

// Of a job that may not start yet.
std::string AsideText(const Job& job) {
  if (job.held) {
    return absl::StrCat("held; `gpupool release ", job.id.value(),
                        "` lets it start");
  }
  return job.after_ok.empty() ? AfterText(job.after_any, "end")
                              : AfterText(job.after_ok, "succeed");
}

// Nothing when it would fit even beside what training must keep away from.
std::optional<std::string> UnderLoadText(const State& state, const Job& job) {
  const auto loaded = DevicesUnderLoad(state);
  if (loaded.empty()) return std::nullopt;
  absl::btree_set<DeviceId> excluded;
  for (const auto& [device, version] : loaded) excluded.insert(device);
  if (Place(state, NeedOf(job), excluded).fit == Fit::kNow) return std::nullopt;
  const auto& [device, version] = *loaded.begin();
  return absl::StrCat("waits for ", DevicesText(NeedOf(job)), ": ",
                      state.devices().at(device).name, " is left to model ",
                      LabelOf(state.versions().at(version)),
                      ", which is under load");
}

std::string ReasonFor(const State& state, const Job& job, size_t ahead) {
  const std::string suffix = absl::StrCat("; ", AheadText(state, job, ahead));
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
  if (auto level = LevelAtLimit(state, job.tenant, job.device_count)) {
    return absl::StrCat("tenant '", *level, "' may use ",
                        *state.policy().tenants.find(*level)->second.most,
                        " devices at once and uses ",
                        state.usage().Devices(*level), "; it needs ",
                        job.device_count, suffix);
  }
  const Device* freest = Freest(state, job);
  const Device* cooling = InTheWayByCooling(state, job);
  if (cooling != nullptr && freest == nullptr) {
    return absl::StrCat("waits: ", CoolingText(*cooling), suffix);
  }
  if (freest == nullptr) {
    return absl::StrCat("waits for ", DevicesText(NeedOf(job)),
                        ": their workers are starting", suffix);
  }
  if (placement.fit == Fit::kNow) {
    return absl::StrCat(UnderLoadText(state, job).value_or("about to start"),
                        suffix);
  }
  return absl::StrCat(
      RoomText(state, job, placement, *freest),
      OnlyVersionsInTheWay(state, job, placement)
          ? "; served models hold the rest: unload one to make room"
          : "",
      cooling == nullptr ? "" : absl::StrCat("; ", CoolingText(*cooling)),
      HeldBackText(placement), suffix);
}

// In the order in which they may start.
void Sort(const State& state, std::vector<const Job*>& jobs) {
  std::sort(jobs.begin(), jobs.end(),
            [](const Job* a, const Job* b) { return KeyOf(*a) < KeyOf(*b); });
  if (state.policy().order == Order::kFairShare) {
    SortByShare(state, absl::MakeSpan(jobs));
  }
}

// The jobs of one group that may start next, in order: the first of each shape
// for which nothing is reserved and of which nothing is being stopped.
class FirstOfShapes {
 public:
  FirstOfShapes(const State& state, const WaitingJobs::Heads& heads)
      : state_(state), next_(heads.begin()), end_(heads.end()) {}

  // Null when there are no more.
  const Job* Next() {
    while (const std::optional<Entry> entry = TakeFirst()) {
      const Shape& shape = entry->shape->first;
      if (LevelAtLimit(state_, shape.tenant, shape.devices)) continue;
      const Job& job = state_.jobs().at(entry->key->job);
      if (job.reserved_devices.empty() &&
          state_.StrayDevice(job.id) == nullptr) {
        return &job;
      }
      const auto second = std::next(entry->key);
      if (second == entry->shape->second.end()) continue;
      behind_.emplace(*second, Entry{second, entry->shape});
    }
    return nullptr;
  }

 private:
  struct Entry {
    WaitingJobs::Keys::const_iterator key;
    const WaitingJobs::OfShape* shape = nullptr;
  };

  std::optional<Entry> TakeFirst() {
    if (!behind_.empty() &&
        (next_ == end_ || behind_.begin()->first < next_->first)) {
      const Entry entry = behind_.begin()->second;
      behind_.erase(behind_.begin());
      return entry;
    }
    if (next_ == end_) return std::nullopt;
    const WaitingJobs::OfShape* shape = (next_++)->second;
    return Entry{shape->second.begin(), shape};
  }

  const State& state_;
  WaitingJobs::Heads::const_iterator next_;
  WaitingJobs::Heads::const_iterator end_;
  // Of shapes whose first jobs were left out: the first of the others.
  absl::btree_map<QueueKey, Entry> behind_;
};

}  // namespace

bool IsAtLimit(const State& state, const Job& job) {
  return LevelAtLimit(state, job.tenant, job.device_count).has_value();
}

Need NeedOf(const Job& job) {
  return {job.bytes, job.device_kind, job.device_count, job.id, job.host};
}

std::string FaultsText(const Device& device) {
  if (device.faults <= 1) return "a fault";
  return absl::StrCat(device.faults, " faults in a row");
}

std::vector<const Job*> Candidates(const State& state) {
  absl::flat_hash_map<const Job*, FirstOfShapes> groups;
  std::vector<const Job*> firsts;
  for (const auto& [group, heads] : state.waiting().heads()) {
    FirstOfShapes jobs(state, heads);
    const Job* first = jobs.Next();
    if (first == nullptr) continue;
    firsts.push_back(first);
    groups.emplace(first, std::move(jobs));
  }
  if (firsts.size() > 1) Sort(state, firsts);
  std::vector<const Job*> jobs;
  jobs.reserve(kMaxScan + state.reserving().size());
  for (const Job* first : firsts) {
    FirstOfShapes& more = groups.at(first);
    for (const Job* job = first; job != nullptr && jobs.size() < kMaxScan;
         job = more.Next()) {
      jobs.push_back(job);
    }
  }
  if (state.reserving().empty()) return jobs;
  // Always looked at: what is reserved for them stands idle meanwhile.
  for (JobId id : state.reserving()) {
    const Job& job = state.jobs().at(id);
    if (!IsAtLimit(state, job)) jobs.push_back(&job);
  }
  Sort(state, jobs);
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
  FreeDevices free(state, excluded);
  size_t excluded_there = excluded.size();
  // Only where nobody gives way does it matter who was passed.
  const bool counts = !state.policy().by_standing();
  for (const Job* job : Candidates(state)) {
    const Need need = NeedOf(*job);
    if (!job->reserved_devices.empty() || free.MayHold(need)) {
      Placement placement = Place(state, need, excluded);
      if (placement.fit == Fit::kNow) {
        next.job = job->id;
        next.devices = std::move(placement.devices);
        return next;
      }
      // So that the others are seen through before they are looked at.
      if (excluded.size() > excluded_there) {
        free = FreeDevices(state, excluded);
        excluded_there = excluded.size();
      }
    }
    if (!counts) continue;
    // A job that fits nowhere even in an empty pool is not being passed.
    if (!free.MayEverHold(need)) continue;
    next.passed.push_back(job->id);
    excluded.insert(job->held_devices.begin(), job->held_devices.end());
  }
  return std::nullopt;
}

std::string WaitingReason(const State& state, const Job& job) {
  if (!job.MayStart()) return AsideText(job);
  const auto place = state.queue().find(KeyOf(job));
  const auto ahead = std::distance(state.queue().begin(), place);
  return ReasonFor(state, job, static_cast<size_t>(ahead));
}

absl::btree_map<JobId, std::string> WaitingReasons(const State& state,
                                                   size_t limit) {
  absl::btree_map<JobId, std::string> reasons;
  absl::btree_map<absl::string_view, size_t> aheads;  // by tenant
  for (const QueueKey& key : state.queue()) {
    if (reasons.size() >= limit) break;
    const Job& job = state.jobs().at(key.job);
    size_t& ahead =
        aheads[state.policy().order == Order::kFairShare ? job.tenant : ""];
    reasons[key.job] = ReasonFor(state, job, ahead++);
  }
  for (JobId id : state.aside()) {
    if (reasons.size() >= limit) break;
    reasons[id] = AsideText(state.jobs().at(id));
  }
  return reasons;
}

}  // namespace gpupool::scheduler
