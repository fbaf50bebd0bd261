#include "scheduler/explain/explain.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "absl/container/btree_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/substitute.h"
#include "scheduler/explain/kept_devices.h"
#include "scheduler/explain/waiting_reason.h"
#include "scheduler/order/queue_policy.h"
#include "scheduler/place/obstacle.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/state/counted.h"
#include "scheduler/state/device_choice.h"
#include "scheduler/state/order_policy.h"
#include "scheduler/yield/elastic_policy.h"
#include "scheduler/yield/preemption_policy.h"
#include "scheduler/yield/preemption_reasons.h"
#include "scheduler/yield/running_jobs.h"
#include "scheduler/yield/serving_policy.h"

namespace gpupool::scheduler {
namespace {

// Separator that opens each text of HeldBackText.
constexpr absl::string_view kSeparator = "; ";

std::string NameOf(JobId id) { return absl::StrCat("job ", id.value()); }

// Returns the job's run time that is left, if the total is known.
std::optional<absl::Duration> LeftOf(const Job& job, absl::Time now) {
  if (!job.expected_run) return std::nullopt;
  return std::max(*job.expected_run - job.Attained(now), absl::ZeroDuration());
}

// Returns why the job does not start on the device; empty when it may.
// Obstacles that keep the job away come before bytes that others hold there.
std::string ObstacleOn(const State& state, const Device& device, const Job& job,
                       const KeptDevices& held) {
  const Need need = NeedOf(state, job);
  const std::optional<Obstacle> obstacle = ObstacleFor(state, device, need);
  if (obstacle && obstacle->kind <= ObstacleKind::kReserved) {
    return ObstacleText(state, device, need, *obstacle);
  }
  if (const auto it = held.find(device.id); it != held.end()) {
    return absl::StrCat("kept free for ", KeeperText(state, it->second));
  }
  if (const auto loaded = DevicesUnderLoad(state); loaded.contains(device.id)) {
    return absl::StrCat(
        ModelTextFor(state.versions().at(loaded.at(device.id)), job.tenant),
        " is under load here, and training stays away");
  }
  return obstacle ? ObstacleText(state, device, need, *obstacle) : "";
}

// Returns the text for a job that gives way for the reason.
template <typename... Values>
std::string OwnText(PreemptionReason reason, const Values&... values) {
  return absl::Substitute(RowOf(reason).own, values...);
}

// Returns the job's standing and the one above which jobs of its queue give way
// to the waiting job.
std::string StandingText(const State& state, const Job& running, const Job& job,
                         absl::Time now) {
  const Queue& queue = state.QueueOf(job);
  return OwnText(PreemptionReason::kOrder,
                 absl::StrFormat("%.0f", KeptStandingOf(queue, running, now)),
                 absl::StrFormat("%.0f", job.standing * queue.hysteresis));
}

// Returns why the running job gives way to the waiting one.
std::string GivesWayText(const State& state, const Job& running, const Job& job,
                         absl::Time now) {
  const PreemptionReason reason = ReasonToGiveWay(state, job, running, now);
  switch (reason) {
    case PreemptionReason::kGuarantee:
      return OwnText(reason, running.tenant);
    case PreemptionReason::kQueue:
      return OwnText(reason, state.QueueOf(running).name);
    case PreemptionReason::kOrder:
      return StandingText(state, running, job, now);
    default:
      return OwnText(reason);
  }
}

// Returns why the running job keeps its device, or would not help, while the
// waiting one is at a limit of its tenant or queue. No job gives way to it
// then.
std::string AtLimitText(const State& state, const Job& running,
                        const Job& job) {
  const auto level = state.usage().LevelAtLimit(
      job.tenant, {job.device_count, job.bytes}, state.policy().tenants);
  const auto path = PathOf(running.tenant);
  const bool counts = level ? std::count(path.begin(), path.end(), *level) > 0
                            : running.queue == job.queue;
  return absl::StrCat(
      counts ? "keeps its device until it ends: " : "its end would not help: ",
      level ? absl::StrCat("tenant '", *level)
            : absl::StrCat("queue '", state.QueueOf(job).name),
      "' is at its limit");
}

// Returns why the running job does not give way to the claim.
std::string StaysText(const RunningJobs& jobs, const RunningJobs::Claim& claim,
                      const RunningJobs::OnDevice& on, absl::Time now) {
  const State& state = jobs.state();
  const Job& job = claim.job;
  const Job& running = *on.job;
  const Queue& queue = state.QueueOf(job);
  const bool borrows = jobs.IsGuaranteed(job) && on.is_borrowed &&
                       !state.queues().IsAbove(running.queue, job.queue);
  const bool is_same = running.queue == job.queue;
  if (!borrows && !state.queues().TakesFrom(job.queue, running.queue)) {
    return absl::StrCat(
        "keeps its device until it ends: ",
        is_same ? absl::StrCat("the order is ", ToString(queue.order))
                : absl::StrCat("it is in queue '", state.QueueOf(running).name,
                               "', from which queue '", queue.name,
                               "' takes nothing"));
  }
  if (!borrows && is_same && running.priority > job.priority) {
    return absl::StrCat("has the higher priority, ", running.priority);
  }
  if (running.state != JobState::kRunning) return "is only starting";
  const absl::Duration left =
      state.QueueOf(running).min_run - (now - running.run_since);
  if (left > absl::ZeroDuration()) {
    return absl::StrCat("is in its minimum run for another ", FormatSpan(left));
  }
  if (!queue.by_standing()) return "has the same priority";
  return StandingText(state, running, job, now);
}

// Returns the view of a running job: whether it gives way to the claim, and
// why.
Explanation::RunningView ViewOf(const RunningJobs& jobs,
                                const RunningJobs::Claim& claim,
                                const RunningJobs::OnDevice& on,
                                absl::Time now) {
  const State& state = jobs.state();
  const Job& running = *on.job;
  Explanation::RunningView view;
  view.job = running.id;
  view.left = LeftOf(running, now);
  if (running.gives_way_to == claim.job.id) {
    view.gives_way = true;
    view.reason = "was told to checkpoint and to make room for it";
  } else if (running.yields_to) {
    view.reason = OwnText(PreemptionReason::kServing);
  } else if (on.stops) {
    view.reason = "is stopping";
  } else if (IsAtLimit(state, claim.job)) {
    view.reason = AtLimitText(state, running, claim.job);
  } else if (MayShrinkFor(running, claim.job, state, now)) {
    view.gives_way = true;
    view.reason = OwnText(PreemptionReason::kResize, running.device_count,
                          running.device_counts.front());
  } else if (jobs.GivesWay(claim, on)) {
    view.gives_way = true;
    view.reason = GivesWayText(state, running, claim.job, now);
  } else {
    view.reason = StaysText(jobs, claim, on, now);
  }
  return view;
}

// Adds the job's place in its queue and the jobs ahead of it there. Jobs of
// other queues do not count.
void AddPosition(const State& state, const Job& job, Explanation& explained) {
  if (!job.MayStart()) return;
  const QueueKey first{.queue = job.queue,
                       .priority = std::numeric_limits<int>::max()};
  for (auto key = state.queue().lower_bound(first); key != state.queue().end();
       ++key) {
    ++explained.position;
    if (key->job == job.id) return;
    if (explained.ahead.size() < kMostAhead) {
      explained.ahead.push_back(key->job);
    }
  }
}

// Adds the ends that would give a task a place in its array.
void AddChangesOfArray(const State& state, const Job& job,
                       Explanation& explained) {
  const ArrayTasks& tasks = state.arrays().at(job.array);
  const auto before =
      std::distance(tasks.standing.begin(), tasks.standing.find(job.id));
  if (before > 0) {
    explained.changes.push_back(absl::StrCat(
        Counted(static_cast<uint64_t>(before), "task"), " of array ",
        job.array.value(), " ahead of it ", before == 1 ? "starts" : "start"));
  }
  for (const auto* places : {&tasks.live, &tasks.queued}) {
    for (JobId id : *places) {
      if (explained.changes.size() >= kMostAhead) return;
      explained.changes.push_back(absl::StrCat(
          NameOf(id), " of array ", job.array.value(), " ends or is held"));
    }
  }
}

// Adds the changes for which a job waits outside the queue.
void AddChangesAside(const State& state, const Job& job,
                     Explanation& explained) {
  if (job.held) {
    explained.changes.push_back(
        absl::StrCat("`gpupool release ", job.id.value(), "`"));
  }
  if (job.untried) {
    explained.changes.push_back("one step of it has been made alone");
  }
  if (job.over_limit) AddChangesOfArray(state, job, explained);
  for (JobId id : job.after_ok) {
    explained.changes.push_back(absl::StrCat(NameOf(id), " succeeds"));
  }
  for (JobId id : job.after_any) {
    explained.changes.push_back(absl::StrCat(NameOf(id), " ends"));
  }
}

// Adds the end of each reservation that is in the way, once whatever the number
// of its devices.
void AddReservationEnds(const State& state, const Job& job,
                        Explanation& explained) {
  absl::btree_set<ReservationId> told;
  for (const Explanation::DeviceView& view : explained.devices) {
    const TenantReservation* reservation =
        ReservationAgainst(state, view.device, NeedOf(state, job));
    if (reservation == nullptr || !told.insert(reservation->id).second) {
      continue;
    }
    explained.changes.push_back(absl::StrCat(
        "reservation '", reservation->name, "' for ", reservation->tenant,
        " ends, in ", FormatSpan(reservation->end - state.now())));
  }
}

// Returns the change that would let a job start that never fits now.
std::string RemedyText(const State& state, const Need& need,
                       const Placement& placement) {
  if (!placement.kinds.empty()) {
    return "only larger devices, or a smaller batch_size or model in a new job";
  }
  const auto& devices = state.devices();
  const bool is_there =
      std::any_of(devices.begin(), devices.end(), [&](const auto& item) {
        return TakesDevice(need.wanted_device, item.second.name,
                           item.second.kind);
      });
  if (is_there) {
    return absl::StrCat("queue '", need.queue->queue.name, "' gets ",
                        DevicesText(need),
                        " in the server's --queues, or the job is submitted "
                        "anew to another queue");
  }
  return absl::StrCat("the server is started with --devices that has ",
                      need.wanted_device,
                      ", or the job is submitted anew without `device`");
}

// Adds the ends of running jobs that may let the job start, and the limits that
// would have to be higher.
void AddEndsAndLimits(const State& state, const Job& job,
                      Explanation& explained) {
  const auto level = state.usage().LevelAtLimit(
      job.tenant, {job.device_count, job.bytes}, state.policy().tenants);
  const bool queue_is_full = state.queues().IsFull(job.queue, job.device_count);
  for (const Explanation::RunningView& view : explained.running) {
    const Job& running = state.jobs().at(view.job);
    const auto path = PathOf(running.tenant);
    // At a tenant's limit only jobs of that tenant can make room, and at a
    // queue's only jobs of that queue.
    if (level && std::count(path.begin(), path.end(), *level) == 0) continue;
    if (queue_is_full && running.queue != job.queue) continue;
    const std::string when =
        view.left ? absl::StrCat(", in about ", FormatSpan(*view.left)) : "";
    explained.changes.push_back(
        absl::StrCat(NameOf(view.job),
                     view.gives_way ? " stops after its checkpoint" : " ends",
                     view.gives_way ? "" : when));
  }
  if (queue_is_full) {
    explained.changes.push_back(absl::StrCat("a higher `most` of queue '",
                                             state.QueueOf(job).name,
                                             "' in the server's --queues"));
  }
  if (level) {
    const bool of_devices = state.usage().ExceedsDevices(
        *level, job.device_count, state.policy().tenants);
    explained.changes.push_back(
        absl::StrCat("a higher `", of_devices ? "most" : "device-bytes",
                     "` of tenant '", *level, "' in the server's --tenants"));
  }
}

// Adds the changes on devices and on served models that may let the job start.
void AddChangesOnDevices(const State& state, const Job& job,
                         Explanation& explained) {
  for (const auto& [device, version] : DevicesUnderLoad(state)) {
    if (!DeviceMatches(state.devices().at(device), NeedOf(state, job)))
      continue;
    explained.changes.push_back(absl::StrCat(
        "the load on ", ModelTextFor(state.versions().at(version), job.tenant),
        " goes down"));
  }
  AddReservationEnds(state, job, explained);
  for (const Explanation::DeviceView& view : explained.devices) {
    const Device& device = state.devices().at(view.device);
    if (view.obstacle.empty()) continue;
    if (device.full_bytes < job.bytes) continue;
    if (!device.ready) {
      explained.changes.push_back(
          absl::StrCat("the worker of ", device.name, " comes back"));
      continue;
    }
    if (device.drain) {
      explained.changes.push_back(
          absl::StrCat("`gpupool devices resume ", device.name, "`"));
      continue;
    }
    if (device.cools()) {
      explained.changes.push_back(
          absl::StrCat("the cool-down of ", device.name, " ends, in ",
                       FormatSpan(device.cools_until - state.now())));
    }
    if (view.missing_bytes == 0) continue;
    for (VersionId id : device.versions) {
      const Version& version = state.versions().at(id);
      if (!version.tenant.empty() && version.tenant != job.tenant) continue;
      explained.changes.push_back(absl::StrCat(
          "`gpupool models unload ", version.model, "` gives back ",
          FormatBytes(version.bytes), " on ", device.name));
    }
  }
  const Placement placement = Place(state, NeedOf(state, job));
  if (placement.fit == Fit::kNever) {
    explained.changes.push_back(
        RemedyText(state, NeedOf(state, job), placement));
  }
  const std::string held_back = HeldBackText(placement);
  if (held_back.size() > kSeparator.size()) {
    explained.changes.push_back(held_back.substr(kSeparator.size()));
  }
}

// Adds the devices that the job may use and the jobs that run there.
void AddDevices(const State& state, const Job& job, absl::Time now,
                Explanation& explained) {
  const Need need = NeedOf(state, job);
  const KeptDevices held = KeptFrom(state, job, KeepersBefore(state, job));
  const absl::btree_set<DeviceId> none;
  const RunningJobs jobs(state, now, none);
  const RunningJobs::Claim claim = jobs.ClaimOf(job);
  absl::btree_set<JobId> seen;
  for (const RunningJobs::Spot& spot : jobs.spots()) {
    const Device& device = *spot.device;
    if (!DeviceMatches(device, need)) continue;
    const uint64_t free = device.free_bytes();
    const uint64_t needed = NeededOn(need, device);
    explained.devices.push_back({device.id, needed > free ? needed - free : 0,
                                 ObstacleOn(state, device, job, held)});
    for (const RunningJobs::OnDevice& running : jobs.On(spot)) {
      // A job on several devices is told once.
      if (!seen.insert(running.job->id).second) continue;
      explained.running.push_back(ViewOf(jobs, claim, running, now));
    }
  }
}

}  // namespace

Explanation Explain(const State& state, const Job& job, absl::Time now) {
  Explanation explained;
  if (job.Saves()) explained.waits_for = WaitingReason(state, job);
  if (IsLive(job.state) || IsEnded(job.state)) return explained;
  if (job.state == JobState::kBackingOff) {
    explained.waits_for = absl::StrCat(
        "backs off for another ",
        FormatSpan(std::max(job.wake_time - now, absl::ZeroDuration())),
        " after ", job.failures, " of ", Counted(job.max_attempts, "attempt"));
    explained.changes.push_back(
        absl::StrCat("`gpupool requeue ", job.id.value(), "` ends the wait"));
    return explained;
  }
  explained.waits_for = WaitingReason(state, job);
  AddPosition(state, job, explained);
  AddChangesAside(state, job, explained);
  if (state.draining()) {
    explained.changes.push_back("the server is started again");
  }
  AddDevices(state, job, now, explained);
  if (job.MayStart()) {
    AddEndsAndLimits(state, job, explained);
    AddChangesOnDevices(state, job, explained);
  }
  return explained;
}

}  // namespace gpupool::scheduler
