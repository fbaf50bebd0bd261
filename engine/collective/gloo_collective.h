// Collectives of CPU ranks over Gloo's TCP transport: the loopback, or an
// interface that reaches the other machines.
//
// All-reduce: rank r owns the r-th part of a segment; it gets that part from
// everybody, adds in the order of the ranks, and sends the sum to everybody.
// Each rank moves 2 (n - 1) / n of the bytes, as a ring would, in two waits
// where a ring has 2 (n - 1); and the order of the additions is the same
// however the processes are timed.
//
// A failure is told through the rendezvous before connections are closed, so
// that the others name the rank that was lost first and not the one that
// noticed.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/collective/abort_switch.h"
#include "engine/collective/collective.h"
#include "engine/collective/rendezvous.h"

namespace gpupool::engine {

inline constexpr int kMaxCollectiveRanks = 1024;

struct GlooOptions {
  int rank = 0;
  int size = 1;
  // Names the group in the rendezvous: another one for each attempt of a job,
  // in letters, digits, dots, dashes and underscores, at most 64.
  std::string group;
  // Network interface, as "eth0"; empty: the loopback.
  std::string interface;
  // For all ranks to arrive and connect.
  absl::Duration connect_timeout = absl::Seconds(60);
  // For each call, from when it is this rank's turn to run it.
  absl::Duration timeout = absl::Seconds(60);
  // Aborts the group as Collective::Abort does, and while it connects too;
  // null: nobody does.
  std::shared_ptr<AbortSwitch> abort;
};

// Returns when all ranks have connected. `store` must outlive the collective.
//   INVALID_ARGUMENT     an option is out of range
//   ALREADY_EXISTS       another process took this rank of the group
//   FAILED_PRECONDITION  a rank has another idea of the size
//   UNAVAILABLE          a rank did not arrive in time; names it
//   ABORTED              the switch was thrown
absl::StatusOr<std::unique_ptr<Collective>> ConnectGloo(
    const GlooOptions& options, RendezvousStore* store);

}  // namespace gpupool::engine
