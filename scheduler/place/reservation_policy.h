// Which devices a reservation gets: a pure function of the state.
//
// Those that are named, then, of one kind, such as have no other reservation in
// the window: on one machine where that is possible, there where the fewest
// jobs run, and of equally busy ones those that are connected best
// (topology.h). Drained ones come last.
//
// Thread-safety: as State.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

struct ReservationNeed {
  std::string tenant;
  uint32_t devices = 0;         // in all; 0: as many as are named
  std::vector<DeviceId> named;  // distinct
  // Of the others; empty: that of the first one named, or any, but one.
  std::string device_kind;
  absl::Time start;
  absl::Time end;
};

// Rising ids.
//   InvalidArgument     neither names nor a number, fewer than are named, more
//                       than there are
//   FailedPrecondition  other reservations leave too few in the window; names
//                       them and what is free instead
absl::StatusOr<std::vector<DeviceId>> ChooseReserved(const State& state,
                                                     ReservationNeed need);

}  // namespace gpupool::scheduler
