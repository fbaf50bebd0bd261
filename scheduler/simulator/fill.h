// Fills a pool with jobs that never end, through the scheduler that the server
// runs, and tells how much of its devices they got: what a placement is worth
// (the method of Weng et al., USENIX ATC 2023). Jobs come one after the other;
// one that finds no room is dropped.
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

// Of a device, in thousandths of it.
inline constexpr uint64_t kWholeDevice = 1000;
// What needs no device is placed on one of this kind, of which every machine
// has one with room for any number of them.
inline constexpr char kHostKind[] = "host";

struct FillNode {
  std::string kind;  // of its devices
  uint32_t devices = 0;
  HostNeed host;
};

struct FillOptions {
  PlacementRule rule = PlacementRule::kSpread;
  double ratio = 1.3;  // devices that are asked for / there
  uint64_t seed = 42;  // of the order of the jobs
  // The jobs count as submitted before, so that what they usually need is known
  // from the first one on; otherwise it is learned on the way.
  bool mix_is_known = true;
  // After every event all invariants are checked; slow.
  bool check_invariants = false;
};

// Shares are of all devices.
struct FillResult {
  uint64_t jobs = 0;
  uint64_t dropped = 0;
  double asked = 0;
  double allocated = 0;          // in the end
  double allocated_at_full = 0;  // when as much was asked for as there is
  // Of what stands idle in the end, what the next job probably cannot use
  // (fragmentation.h).
  double fragmented = 0;
};

// The jobs in an order given by the seed, and then one after the other drawn
// from them, up to the first that would exceed ratio * capacity.
std::vector<JobNeed> Tune(absl::Span<const JobNeed> jobs, uint64_t capacity,
                          double ratio, uint64_t seed);

// Called now and then with the share of jobs that were looked at. False ends
// the filling.
using FillProgress = absl::FunctionRef<bool(double)>;

// InvalidArgument without devices or jobs that need some. Cancelled when
// `progress` said so, Internal when an invariant breaks.
absl::StatusOr<FillResult> FillPool(absl::Span<const FillNode> nodes,
                                    absl::Span<const JobNeed> jobs,
                                    const FillOptions& options,
                                    FillProgress progress);

}  // namespace gpupool::scheduler
