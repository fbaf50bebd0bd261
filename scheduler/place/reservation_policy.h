// Chooses the devices of a reservation: a pure function of the state.
//
// The named devices come first. The others are of one kind and have no other
// reservation in the window. The policy prefers, in this order:
//   1. devices of one machine
//   2. devices that are not drained
//   3. devices that run the fewest jobs
//   4. the best connected devices (topology.h)
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
  uint32_t devices = 0;         // in total; 0: only the named ones
  std::vector<DeviceId> named;  // distinct
  // Kind of the devices that are not named. Empty: the kind of the first named
  // one, or with none named any kind, the same for all.
  std::string device_kind;
  absl::Time start;
  absl::Time end;
};

// Returns the devices by rising id. Errors:
//   * InvalidArgument: neither names nor a number, a number below that of the
//     names, or more devices than there are
//   * FailedPrecondition: other reservations leave too few in the window; names
//     them and the devices that are free instead
absl::StatusOr<std::vector<DeviceId>> ChooseReserved(const State& state,
                                                     ReservationNeed need);

}  // namespace gpupool::scheduler
