// Fills a pool with jobs that never end, through the server's scheduler, and
// reports how much of its devices they got: a measure of the placement (the
// method of Weng et al., USENIX ATC 2023). Jobs come one by one. A job that
// finds no room is dropped.
//
// Thread-safety: none. Pure: the same workload and options give the same
// result.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "scheduler/state/host.h"
#include "scheduler/state/need_history.h"
#include "scheduler/state/order_policy.h"

namespace gpupool::scheduler {

// Size of a device, in thousandths of one.
inline constexpr uint64_t kWholeDevice = 1000;
// Kind of the device for jobs that need none. Every machine has one such
// device, with room for any number of them.
inline constexpr char kHostKind[] = "host";

struct FillNode {
  std::string kind;  // kind of its devices
  uint32_t devices = 0;
  HostNeed host;
};

struct FillOptions {
  PlacementRule rule = PlacementRule::kSpread;
  double ratio = 1.3;  // devices asked for / devices in the pool
  uint64_t seed = 42;  // seed of the order of the jobs
  // Counts the jobs as submitted before, so that their typical needs are known
  // from the first placement on. Otherwise needs are learned on the way.
  bool mix_is_known = true;
  // Checks all invariants after every event. Slow.
  bool check_invariants = false;
};

// Result of a filling. Shares are of all devices.
struct FillResult {
  uint64_t jobs = 0;
  uint64_t dropped = 0;
  double asked = 0;
  double allocated = 0;          // at the end
  double allocated_at_full = 0;  // when the jobs have asked for all devices
  // Part of the idle devices at the end that the next job probably cannot use
  // (fragmentation.h).
  double fragmented = 0;
};

// Returns the jobs in an order given by the seed, followed by jobs drawn from
// them at random, up to the first that would exceed ratio * capacity.
std::vector<JobNeed> Tune(absl::Span<const JobNeed> jobs, uint64_t capacity,
                          double ratio, uint64_t seed);

// Function that is called now and then with the share of jobs that were tried.
// Returning false ends the filling.
using FillProgress = absl::FunctionRef<bool(double)>;

// Returns the result of the filling. InvalidArgument without devices or without
// jobs that need some. Cancelled when `progress` returns false. Internal when
// an invariant breaks.
absl::StatusOr<FillResult> FillPool(absl::Span<const FillNode> nodes,
                                    absl::Span<const JobNeed> jobs,
                                    const FillOptions& options,
                                    FillProgress progress);

}  // namespace gpupool::scheduler
