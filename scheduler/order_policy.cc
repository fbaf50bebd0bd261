#include "scheduler/order_policy.h"

#include <algorithm>

#include "scheduler/state.h"

namespace gpupool::scheduler {
namespace {

bool RemainingIsKnown(const QueuePolicy& policy, const Job& job) {
  return policy.order == Order::kShortestRemaining && job.expected_run;
}

double RemainingOf(const Job& job, absl::Time now) {
  const absl::Duration left = *job.expected_run - job.Attained(now);
  return job.device_count * std::max(absl::ToDoubleSeconds(left), 0.0);
}

}  // namespace

double StandingOf(const QueuePolicy& policy, const ServiceHistory& history,
                  const Job& job, absl::Time now) {
  if (policy.order == Order::kFirstCome) return 0;
  if (RemainingIsKnown(policy, job)) return RemainingOf(job, now);
  const absl::Duration attained = job.Attained(now);
  const double devices = job.device_count;
  if (history.jobs() < ServiceHistory::kFewJobs) {
    return std::max(devices * absl::ToDoubleSeconds(attained),
                    absl::ToDoubleSeconds(kFirstService));
  }
  return devices * absl::ToDoubleSeconds(history.PerCompletion(attained));
}

double KeptStandingOf(const QueuePolicy& policy, const Job& job,
                      absl::Time now) {
  return RemainingIsKnown(policy, job) ? RemainingOf(job, now) : job.standing;
}

absl::Time NextStandingChange(const QueuePolicy& policy, const Job& job,
                              absl::Time now) {
  const bool rises = policy.order != Order::kFirstCome &&
                     !RemainingIsKnown(policy, job) &&
                     job.run_since != absl::InfiniteFuture();
  if (!rises) return absl::InfiniteFuture();
  const absl::Duration attained = job.Attained(now);
  return now + (ServiceHistory::NextChange(attained) - attained);
}

}  // namespace gpupool::scheduler
