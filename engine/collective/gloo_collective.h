// Collectives of CPU ranks over Gloo's TCP transport, on the loopback or on an
// interface that reaches the other machines.
//
// All-reduce: rank r owns the r-th part of a segment. It receives that part
// from every rank, adds in the order of the ranks, and sends the sum to every
// rank. Each rank moves 2 (n - 1) / n of the bytes, as with a ring, but waits 2
// times instead of 2 (n - 1) times. The order of the additions does not depend
// on timing.
//
// A rank that fails writes the reason to the rendezvous before it closes its
// connections. The others can therefore name the rank that was lost first, not
// the one that noticed.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/collective/abort_switch.h"
#include "engine/collective/collective.h"
#include "engine/collective/rendezvous.h"

namespace gpupool::engine {

struct GlooOptions {
  int rank = 0;
  int size = 1;
  // The group's name in the rendezvous, unique for each attempt of a job: 1 to
  // 64 letters, digits, dots, dashes and underscores.
  std::string group;
  // The network interface, such as "eth0"; empty: the loopback.
  std::string interface;
  // The time for all ranks to arrive and connect.
  absl::Duration connect_timeout = absl::Seconds(60);
  // The time for each call, from the start of its execution on this rank.
  absl::Duration timeout = absl::Seconds(60);
  // A switch that aborts the group as Collective::Abort does, also while it
  // connects. May be null.
  std::shared_ptr<AbortSwitch> abort;
};

// Connects and returns when all ranks have connected. `store` must outlive the
// collective.
//   INVALID_ARGUMENT     an option is out of range
//   ALREADY_EXISTS       another process took this rank of the group
//   FAILED_PRECONDITION  a rank was started with another group size
//   UNAVAILABLE          a rank did not arrive in time; the text names it
//   ABORTED              the switch was thrown
absl::StatusOr<std::unique_ptr<Collective>> ConnectGloo(
    const GlooOptions& options, RendezvousStore* store);

}  // namespace gpupool::engine
