#include "scheduler/yield/running_jobs.h"

#include <algorithm>

#include "scheduler/order/tenant_order.h"
#include "scheduler/place/placed_jobs.h"
#include "scheduler/state/order_policy.h"

namespace gpupool::scheduler {

RunningJobs::RunningJobs(const State& state, absl::Time now,
                         const absl::btree_set<DeviceId>& excluded)
    : state_(state), has_guarantees_(HasGuarantees(state.policy().tenants)) {
  // A move costs a restart, so a job moves only after it has run for several
  // times that long.
  const absl::Duration before_a_move =
      state.restart_cost() * kMoveAfterRestarts;
  const bool reclaims = has_guarantees_;
  absl::btree_set<JobId> guaranteed;
  // Without guarantees nothing can be borrowed.
  if (reclaims) guaranteed = GuaranteedJobs(state);
  const Need least = LeastNeed(nullptr);
  constexpr Meanwhile in_time{
      .settled = true, .promise_kept = true, .reservation_over = true};
  const PlacedJobs placed(state);
  spots_.reserve(state.devices().size() + 1);
  jobs_.reserve(placed.size());
  for (const auto& [id, device] : state.devices()) {
    Spot& spot = spots_.emplace_back();
    spot.device = &device;
    spot.first = jobs_.size();
    spot.free_bytes = device.free_bytes(WhenSettled(device).returned_bytes);
    spot.site = device.site;
    spot.admitted = !ObstacleFor(state, device, least, in_time) &&
                    (excluded.empty() || !excluded.contains(id));
    for (const Job* on : placed.On(id)) {
      const Queues::Entry& entry = state.queues().at(on->queue);
      OnDevice& job =
          jobs_.emplace_back(OnDevice{.job = on,
                                      .bytes = BytesOn(*on, device),
                                      .queue = on->queue,
                                      .is_gang = on->device_count > 1,
                                      .priority = on->priority,
                                      .level = entry.level});
      job.stops = IsStopping(*on);
      job.is_borrowed = reclaims && !job.stops && !guaranteed.contains(on->id);
      if (job.stops || on->state != JobState::kRunning) continue;
      const absl::Duration run = now - on->run_since;
      // A job that has just started may not be preempted yet.
      if (run < entry.queue.min_run) continue;
      job.standing = KeptStandingOf(entry.queue, *on, now);
      job.can_give_way = true;
      // Only a queue that preempts by its order moves its jobs.
      job.may_move = entry.queue.order_preempts() && run >= before_a_move;
    }
  }
  // The last spot has no device. It marks where the jobs of the one before it
  // end.
  spots_.push_back({.first = jobs_.size()});
  Sum();
}

void RunningJobs::NoteStops() {
  for (OnDevice& job : jobs_) {
    if (job.stops || !IsStopping(*job.job)) continue;
    // All that makes a job give way falls back to its default.
    job = {.job = job.job,
           .bytes = job.bytes,
           .queue = job.queue,
           .is_gang = job.is_gang,
           .priority = job.priority,
           .level = job.level,
           .stops = true};
  }
  Sum();
}

void RunningJobs::Sum() {
  last_.assign(state_.queues().size(), {});
  deepest_level_ = -1;
  any_borrowed_ = false;
  for (const OnDevice& job : jobs_) {
    if (!job.can_give_way) continue;
    Last& last = last_[job.queue];
    last.priority = std::min(last.priority, job.priority);
    last.standing = std::max(last.standing, job.standing);
    deepest_level_ = std::max(deepest_level_, int64_t{job.level});
    any_borrowed_ = any_borrowed_ || job.is_borrowed;
  }
}

Behind RunningJobs::Stays(const Job& job) const {
  const Queues::Entry& entry = state_.queues().at(job.queue);
  if (entry.queue.order_preempts()) {
    return {entry.level, -int64_t{job.priority},
            job.standing * entry.queue.hysteresis};
  }
  Behind stays;
  if (entry.queue.preempts) stays.level = entry.level;
  return stays;
}

bool RunningJobs::IsGuaranteed(const Job& job) const {
  return has_guarantees_ &&
         state_.usage().IsGuaranteed(job.tenant, job.device_count,
                                     state_.policy().tenants);
}

bool RunningJobs::Reclaims(const Job& job) const {
  return any_borrowed_ && IsGuaranteed(job);
}

bool RunningJobs::MayTake(uint32_t queue) const {
  const Queue& own = state_.queues().at(queue).queue;
  return own.order_preempts() || own.preempts || has_guarantees_;
}

bool RunningJobs::SomeoneGivesWay(const Job& job) const {
  const Queues::Entry& entry = state_.queues().at(job.queue);
  const Last& last = last_[job.queue];
  return last.priority < job.priority ||
         last.standing > job.standing * entry.queue.hysteresis ||
         (entry.queue.preempts && deepest_level_ > entry.level) ||
         Reclaims(job);
}

}  // namespace gpupool::scheduler
