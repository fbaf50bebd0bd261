// Sums, copies and barriers among the ranks of one data parallel job, over host
// memory. Back ends: gloo_collective.h.
//
// Every rank makes the same calls in the same order with the same sizes. A rank
// that does not is found by the time-out. Sums are deterministic: the same bits
// on every rank and in every run.
//
// Calls run one after the other on a thread of the collective, so a started
// all-reduce overlaps with the caller's computation. Any thread may call Abort;
// all other calls must come from one thread. After one call has failed, all
// later ones fail with the same status, and the members must make a new group.
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

// The number of a started call. The first call has number 1.
using CollectiveTicket = uint64_t;

class Collective {
 public:
  virtual ~Collective() = default;

  virtual int rank() const = 0;  // from 0
  virtual int size() const = 0;  // from 1

  // Starts to replace `values` on every rank with the sum over all ranks.
  // `values` must not be touched until Wait returns. RESOURCE_EXHAUSTED when
  // too many calls are pending.
  virtual absl::StatusOr<CollectiveTicket> StartAllReduce(
      absl::Span<float> values) = 0;
  // Returns the ticket of the last started call; 0 when there was none.
  virtual CollectiveTicket newest() const = 0;
  // Blocks until the call has ended or has failed. After that its memory is not
  // touched any more. Tickets may be waited for in any order.
  virtual absl::Status Wait(CollectiveTicket ticket) = 0;

  // The calls below run after all calls that were started before them.

  // Copies `bytes` of rank `root` to all ranks.
  virtual absl::Status Broadcast(absl::Span<std::byte> bytes, int root) = 0;
  // Copies `mine` of every rank into `all`, in the order of the ranks. `all` is
  // size() times as long as `mine` and must not overlap it.
  virtual absl::Status AllGather(absl::Span<const std::byte> mine,
                                 absl::Span<std::byte> all) = 0;
  // Blocks until all ranks have called it.
  virtual absl::Status Barrier() = 0;

  // Ends the running call and fails all others, here and on the other ranks,
  // which are told the reason. Used when a job is stopped, or when the daemon
  // knows that a rank is dead before the time-out does.
  virtual void Abort(absl::string_view reason) = 0;

  absl::Status AllReduce(absl::Span<float> values) {
    const absl::StatusOr<CollectiveTicket> ticket = StartAllReduce(values);
    return ticket.ok() ? Wait(*ticket) : ticket.status();
  }
};

}  // namespace gpupool::engine
