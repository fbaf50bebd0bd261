// Decides which of two jobs of a queue with the same priority goes first: pure
// functions of what is known about them. A standing is a number of
// device-seconds. The job with the smaller standing goes first. Where the
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
// Counting device time instead of time lets a job on one device go before a job
// on eight that would end as soon: it delays the others less (Smith's rule).
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

// Choice between several places that fit a job (placement_policy.h).
enum class PlacementRule {
  kSpread,   // where the fewest others run
  kBestFit,  // where the least is left
  kPack,     // where fragmentation grows least
};

// Returns "spread", "best-fit" or "pack": the word in flags and texts.
absl::string_view ToString(PlacementRule rule);
// Returns the rule for the word. InvalidArgument lists the words.
absl::StatusOr<PlacementRule> ParsePlacementRule(absl::string_view text);

// Returns "fifo", "priority", "easy", "fair", "las" or "srs": the word in flags
// and texts.
absl::string_view ToString(Order order);
// Returns the order for the word. InvalidArgument lists the words.
absl::StatusOr<Order> ParseOrder(absl::string_view text);
// Returns "fifo, priority, easy, fair, las or srs".
std::string OrderWords();

inline constexpr absl::string_view kDefaultQueue = "default";

// A queue of a pool. Its jobs stand in its own order.
struct Queue {
  std::string name = std::string(kDefaultQueue);
  Order order = Order::kFirstCome;
  // Factor by which a running job's standing must exceed that of the waiting
  // job before it gives way. With 1 two jobs of the same age would alternate.
  double hysteresis = 2;
  // Run time after a start during which a job does not give way.
  absl::Duration min_run = absl::ZeroDuration();
  // Jobs of a queue of higher rank go first, whatever their priorities. Of two
  // queues of one rank, the one whose jobs hold fewer devices goes first.
  int rank = 0;
  bool preempts = false;             // jobs of lower ranks give way
  std::vector<std::string> devices;  // names or kinds; empty: all
  std::optional<uint32_t> most;  // limit of devices that its jobs hold together
  // Tenants that may submit to it; empty: all.
  std::vector<std::string> tenants;

  // Returns whether its jobs may use a device of this name and kind.
  bool Lists(absl::string_view device, absl::string_view kind) const;
  // Returns whether jobs of one priority are ordered by their past or needed
  // time.
  bool by_standing() const {
    return order == Order::kLeastAttained || order == Order::kShortestRemaining;
  }
  // Returns whether running jobs give way to waiting ones of this queue that go
  // first.
  bool order_preempts() const {
    return by_standing() || order == Order::kPriority;
  }
};

struct QueuePolicy {
  // Order of the queue `default`, unless `queues` has one of that name.
  Order order = Order::kFirstCome;
  double hysteresis = 2;
  absl::Duration min_run = absl::ZeroDuration();
  // Limits and guarantees of tenants apply with every order; jobs of others
  // give way for a guarantee. Weights apply with kFairShare only.
  TenantShares tenants = {};
  absl::Duration usage_half_life = absl::Hours(7 * 24);  // Slurm's default
  // Time that stopping and resuming costs a job.
  absl::Duration restart_cost = absl::Seconds(60);

  // Whether training gives way to served models under load (serving_policy.h).
  bool yields_to_serving = false;
  // Time for which devices must have been free before an elastic job takes
  // them. At least kGrowAfterRestarts times the cost of a restart applies, too
  // (elastic_policy.h).
  absl::Duration grow_after = absl::Seconds(60);
  PlacementRule placement = PlacementRule::kSpread;
  // Further queues, or `default` itself; names are distinct (queues.h).
  std::vector<Queue> queues = {};
};

// Attained time below which jobs have the same standing while nothing is known.
inline constexpr absl::Duration kFirstService = absl::Minutes(10);

// Returns the standing of the job at `now`, running or not; >= 0. By age it is
// computed when the job is queued, when it starts and at NextStandingChange,
// and kept in Job.standing in between: what is learned meanwhile does not move
// a job.
double StandingOf(const Queue& queue, const ServiceHistory& history,
                  const Job& job, absl::Time now);

// Returns the same, from Job.standing where it is kept there.
double KeptStandingOf(const Queue& queue, const Job& job, absl::Time now);

// Returns when the standing of a running job must be computed again: when its
// age has grown by two fifths. InfiniteFuture when it cannot rise.
absl::Time NextStandingChange(const Queue& queue, const Job& job,
                              absl::Time now);

}  // namespace gpupool::scheduler
