// What the ranks of one data parallel job do together: sums, copies and
// barriers over host memory. Back ends: gloo_collective.h.
//
// Every rank makes the same calls in the same order with the same sizes; a
// rank that does otherwise is found out by the time-out. Sums are
// deterministic: the same bits on every rank and in every run.
//
// Calls run one after the other on a thread of the collective's own, so a
// started all-reduce overlaps with what the caller computes. Any thread may
// call Abort; the other calls belong to one thread. Once a call has failed,
// all later ones fail with its status: the group is done for, and its members
// make a new one.
//   UNAVAILABLE  a rank is lost: its process ended, it closed, or it did
//                nothing within the time-out. The text names the rank.
//   ABORTED      Abort was called here
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gpupool::engine {

// A started call, counted from 1 in the order of the starts.
using CollectiveTicket = uint64_t;

class Collective {
 public:
  virtual ~Collective() = default;

  virtual int rank() const = 0;  // from 0
  virtual int size() const = 0;  // from 1

  // Puts the sum over all ranks into `values` of every rank. The numbers must
  // be left alone until Wait has returned. RESOURCE_EXHAUSTED when too many
  // calls wait already.
  virtual absl::StatusOr<CollectiveTicket> StartAllReduce(
      absl::Span<float> values) = 0;
  // Of the last call that was started; 0 when none was.
  virtual CollectiveTicket newest() const = 0;
  // Returns when that call is over, or when it will never be: memory given to
  // it is not touched any more. Tickets may be waited for in any order.
  virtual absl::Status Wait(CollectiveTicket ticket) = 0;

  // The calls below wait for what was started before them.

  // Copies `bytes` of rank `root` to all ranks.
  virtual absl::Status Broadcast(absl::Span<std::byte> bytes, int root) = 0;
  // Puts `mine` of every rank into `all`, in the order of the ranks. `all` is
  // size() times as long as `mine` and does not overlap it.
  virtual absl::Status AllGather(absl::Span<const std::byte> mine,
                                 absl::Span<std::byte> all) = 0;
  // Returns when all ranks have come.
  virtual absl::Status Barrier() = 0;

  // Ends the call that runs and fails all others, here and, by telling them,
  // on the other ranks. For a job that is stopped, or a rank that the daemon
  // knows to be dead before the time-out does.
  virtual void Abort(absl::string_view reason) = 0;

  absl::Status AllReduce(absl::Span<float> values) {
    const absl::StatusOr<CollectiveTicket> ticket = StartAllReduce(values);
    return ticket.ok() ? Wait(*ticket) : ticket.status();
  }
};

}  // namespace gpupool::engine
