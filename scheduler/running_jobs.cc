#include "scheduler/running_jobs.h"

#include <algorithm>

#include "scheduler/order_policy.h"
#include "scheduler/tenant_order.h"

namespace gpupool::scheduler {
bool IsStopping(const Job& job) {
  return job.stop_sent.has_value() || job.interruption.has_value() ||
         job.state == JobState::kCancelling;
}

RunningJobs::RunningJobs(const State& state, absl::Time now,
                         const absl::btree_set<DeviceId>& excluded)
    : state_(state) {
  const QueuePolicy& policy = state.policy();
  const absl::Duration before_a_move =
      state.restart_cost() * kMoveAfterRestarts;
  const bool reclaims = HasGuarantees(policy.tenants);
  absl::btree_set<JobId> guaranteed;
  if (reclaims) guaranteed = GuaranteedJobs(state);
  spots_.reserve(state.devices().size() + 1);
  jobs_.reserve(state.devices().size());
  const Job* last = nullptr;  // mostly the next device runs it too
  for (const auto& [id, device] : state.devices()) {
    spots_.push_back(
        {&device, jobs_.size(), device.free_bytes(), device.site,
         device.takes_jobs() && (excluded.empty() || !excluded.contains(id))});
    for (JobId job_id : device.jobs) {
      if (last == nullptr || last->id != job_id)
        last = &state.jobs().at(job_id);
      OnDevice& job = jobs_.emplace_back(OnDevice{last, last->priority});
      job.stops = IsStopping(*last);
      if (job.stops || last->state != JobState::kRunning) continue;
      const absl::Duration run = now - last->run_since;
      if (run < policy.min_run) continue;
      job.standing = KeptStandingOf(policy, *last, now);
      job.can_give_way = true;
      job.may_move = policy.order_preempts() && run >= before_a_move;
      job.is_borrowed = reclaims && !guaranteed.contains(job_id);
    }
  }
  spots_.push_back({.first = jobs_.size()});
  Sum();
}

void RunningJobs::NoteStops() {
  for (OnDevice& job : jobs_) {
    if (job.stops || !IsStopping(*job.job)) continue;
    job = {.job = job.job, .priority = job.priority, .stops = true};
  }
  Sum();
}

void RunningJobs::Sum() {
  lowest_priority_ = 0;
  largest_standing_ = 0;
  any_borrowed_ = false;
  for (const OnDevice& job : jobs_) {
    if (!job.can_give_way) continue;
    lowest_priority_ = std::min(lowest_priority_, job.priority);
    largest_standing_ = std::max(largest_standing_, job.standing);
    any_borrowed_ = any_borrowed_ || job.is_borrowed;
  }
}

Behind RunningJobs::Stays(const Job& job) const {
  const QueuePolicy& policy = state_.policy();
  if (!policy.order_preempts()) return {};
  return {-int64_t{job.priority}, job.standing * policy.hysteresis};
}

bool RunningJobs::Reclaims(const Job& job) const {
  return any_borrowed_ &&
         state_.usage().IsGuaranteed(job.tenant, job.device_count,
                                     state_.policy().tenants);
}

bool RunningJobs::SomeoneGivesWay(const Job& job) const {
  return lowest_priority_ < job.priority ||
         largest_standing_ > job.standing * state_.policy().hysteresis ||
         Reclaims(job);
}

}  // namespace gpupool::scheduler
