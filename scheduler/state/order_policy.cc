#include "scheduler/state/order_policy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "scheduler/state/state.h"

namespace gpupool::scheduler {
namespace {

constexpr Order kOrders[] = {Order::kFirstCome,     Order::kPriority,
                             Order::kBackfill,      Order::kFairShare,
                             Order::kLeastAttained, Order::kShortestRemaining};

bool RemainingIsKnown(const Queue& queue, const Job& job) {
  return queue.order == Order::kShortestRemaining && job.expected_run;
}

double RemainingOf(const Job& job, absl::Time now) {
  const absl::Duration left = *job.expected_run - job.Attained(now);
  // A job may run longer than expected. Its rest is then 0, not negative.
  return job.device_count * std::max(absl::ToDoubleSeconds(left), 0.0);
}

}  // namespace

absl::string_view ToString(Order order) {
  switch (order) {
    case Order::kFirstCome:
      return "fifo";
    case Order::kPriority:
      return "priority";
    case Order::kBackfill:
      return "easy";
    case Order::kFairShare:
      return "fair";
    case Order::kLeastAttained:
      return "las";
    case Order::kShortestRemaining:
      return "srs";
  }
  return "unknown";
}

absl::string_view ToString(PlacementRule rule) {
  switch (rule) {
    case PlacementRule::kSpread:
      return "spread";
    case PlacementRule::kBestFit:
      return "best-fit";
    case PlacementRule::kPack:
      return "pack";
  }
  return "unknown";
}

absl::StatusOr<PlacementRule> ParsePlacementRule(absl::string_view text) {
  for (PlacementRule rule : {PlacementRule::kSpread, PlacementRule::kBestFit,
                             PlacementRule::kPack}) {
    if (text == ToString(rule)) return rule;
  }
  return absl::InvalidArgumentError("must be spread, best-fit or pack");
}

absl::StatusOr<Order> ParseOrder(absl::string_view text) {
  for (Order order : kOrders) {
    if (text == ToString(order)) return order;
  }
  return absl::InvalidArgumentError(absl::StrCat("must be ", OrderWords()));
}

std::string OrderWords() {
  const auto add = [](std::string* out, Order order) {
    out->append(std::string(ToString(order)));
  };
  const auto orders = absl::MakeConstSpan(kOrders);
  return absl::StrCat(
      absl::StrJoin(orders.subspan(0, orders.size() - 1), ", ", add), " or ",
      ToString(orders.back()));
}

bool Queue::Lists(absl::string_view device, absl::string_view kind) const {
  return devices.empty() ||
         std::any_of(devices.begin(), devices.end(), [&](const auto& given) {
           return given == device || given == kind;
         });
}

double StandingOf(const Queue& queue, const ServiceHistory& history,
                  const Job& job, absl::Time now) {
  if (!queue.by_standing()) return 0;
  if (RemainingIsKnown(queue, job)) return RemainingOf(job, now);
  const absl::Duration attained = job.Attained(now);
  const double devices = job.device_count;
  // With few ended jobs there is no estimate, so the device seconds that a job
  // has had stand for it.
  if (history.jobs() < ServiceHistory::kFewJobs) {
    // Below kFirstService all jobs stand equal, so that young jobs do not
    // alternate.
    return std::max(devices * absl::ToDoubleSeconds(attained),
                    absl::ToDoubleSeconds(kFirstService));
  }
  return devices * absl::ToDoubleSeconds(history.PerCompletion(attained));
}

double KeptStandingOf(const Queue& queue, const Job& job, absl::Time now) {
  return RemainingIsKnown(queue, job) ? RemainingOf(job, now) : job.standing;
}

absl::Time NextStandingChange(const Queue& queue, const Job& job,
                              absl::Time now) {
  const bool rises = queue.by_standing() && !RemainingIsKnown(queue, job) &&
                     job.run_since != absl::InfiniteFuture();
  if (!rises) return absl::InfiniteFuture();
  const absl::Duration attained = job.Attained(now);
  return now + (ServiceHistory::NextChange(attained) - attained);
}

}  // namespace gpupool::scheduler
