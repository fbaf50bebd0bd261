// Which of two jobs of a queue and of the same priority goes first: pure
// functions of what is known about them. A standing is a number of seconds
// times devices; the job with the smaller one goes first, and where the
// difference is large enough a running job gives way to a waiting one
// (preemption_policy.h).
//
//   kFirstCome          the order of submission. Nobody gives way.
//   kPriority           the same, and a job of lower priority gives way.
//   kBackfill           first come, and the first job that must wait has a
//                       reservation (backfill_policy.h). Nobody gives way.
//   kFairShare          the tenant goes first that has had least of what it may
//                       have (fair_share.h); priority and submission order its
//                       own jobs. Nobody gives way.
//   kLeastAttained      no run time is known: the device time that a completion
//                       costs at the job's age, as the pool's history tells
//                       (service_history.h); while there is none, the device
//                       time that the job has had.
//   kShortestRemaining  the device time that the job still needs, from its
//                       steps left or from what the user said; jobs that have
//                       told neither stand as with kLeastAttained.
//
// Counting device time, not time, lets a job on one device go before one on
// eight that would end as soon: it delays the others less (Smith's rule).
//
// Thread-safety: as State.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/state/fair_share.h"
#include "scheduler/state/service_history.h"

namespace gpupool::scheduler {

struct Job;

enum class Order {
  kFirstCome,
  kPriority,
  kBackfill,
  kFairShare,
  kLeastAttained,
  kShortestRemaining,
};

// Where a job starts when several places would do (placement_policy.h).
enum class PlacementRule {
  kSpread,   // where the fewest others run
  kBestFit,  // where the least is left
  kPack,     // where it spoils the least for the jobs that come
};

// "spread", "best-fit", "pack": for flags and people.
absl::string_view ToString(PlacementRule rule);
// InvalidArgument lists the words.
absl::StatusOr<PlacementRule> ParsePlacementRule(absl::string_view text);

// "fifo", "priority", "easy", "fair", "las", "srs": for flags and people.
absl::string_view ToString(Order order);
// InvalidArgument lists the words.
absl::StatusOr<Order> ParseOrder(absl::string_view text);
// "fifo, priority, easy, fair, las or srs".
std::string OrderWords();

inline constexpr absl::string_view kDefaultQueue = "default";

// One of a pool's queues; its jobs stand in an order of their own.
struct Queue {
  std::string name = std::string(kDefaultQueue);
  Order order = Order::kFirstCome;
  // A running job gives way when its standing is more than so many times that
  // of the one that waits. 1 would let two jobs of the same age alternate.
  double hysteresis = 2;
  // Since its start; before that it does not give way.
  absl::Duration min_run = absl::ZeroDuration();
  // Jobs of a queue of higher rank go first, whatever their priorities. Of two
  // queues of one rank the one goes first whose jobs hold fewer devices.
  int rank = 0;
  bool preempts = false;             // jobs of lower ranks give way
  std::vector<std::string> devices;  // names or kinds; empty: all
  std::optional<uint32_t> most;      // devices that its jobs hold together
  std::vector<std::string> tenants;  // that may submit to it; empty: all

  // Its jobs may use a device of this name and kind.
  bool Lists(absl::string_view device, absl::string_view kind) const;
  // Jobs of the same priority stand apart by what they have had or need.
  bool by_standing() const {
    return order == Order::kLeastAttained || order == Order::kShortestRemaining;
  }
  // Running jobs give way to those of the queue that go first.
  bool order_preempts() const {
    return by_standing() || order == Order::kPriority;
  }
};

struct QueuePolicy {
  // Of the queue `default`, unless `queues` has one of that name.
  Order order = Order::kFirstCome;
  double hysteresis = 2;
  absl::Duration min_run = absl::ZeroDuration();
  // With every order: limits of tenants, and guarantees, for which jobs of
  // others give way. Weights are for kFairShare.
  TenantShares tenants = {};
  absl::Duration usage_half_life = absl::Hours(7 * 24);  // as Slurm's
  // What stopping and resuming a job costs it.
  absl::Duration restart_cost = absl::Seconds(60);

  // Training gives way to served models that are under load (serving_policy.h).
  bool yields_to_serving = false;
  // Devices must have been free for so long before an elastic job takes them,
  // and for kGrowAfterRestarts times what a restart costs (elastic_policy.h).
  absl::Duration grow_after = absl::Seconds(60);
  PlacementRule placement = PlacementRule::kSpread;
  // Beside the queue `default`, or with it, of distinct names (queues.h).
  std::vector<Queue> queues = {};
};

// While nothing is known, jobs that have had less than this stand together.
inline constexpr absl::Duration kFirstService = absl::Minutes(10);

// Of the job as it stands at `now`, running or not. >= 0. By age it is found
// when the job is queued, when it starts and when NextStandingChange says so,
// and kept in Job.standing meanwhile: what is learned moves nobody who stands
// still.
double StandingOf(const Queue& queue, const ServiceHistory& history,
                  const Job& job, absl::Time now);

// The same, from Job.standing where it is kept.
double KeptStandingOf(const Queue& queue, const Job& job, absl::Time now);

// When the standing of a running job is to be found again, if it keeps running:
// when its age has grown by two fifths. InfiniteFuture when it cannot rise.
absl::Time NextStandingChange(const Queue& queue, const Job& job,
                              absl::Time now);

}  // namespace gpupool::scheduler
