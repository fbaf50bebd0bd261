// EASY backfill: the first job that must wait has a reservation, at the
// earliest time at which the running jobs will have left enough devices, and
// later jobs start ahead of it only where they do not delay it: on other
// devices, or on those if they end before. (Lifka, "The ANL/IBM SP scheduling
// system", 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.)
//
// It needs to know how long jobs run: their training loop or the user says so.
// A job of which that is unknown starts only beside the reservation, and while
// the end of one that is in the way is unknown there is no reservation; then
// passes are counted as with first come (queue_policy.h).
//
// Thread-safety: as State. Pure functions of it.
#pragma once

#include <optional>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "scheduler/order/queue_policy.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// Jobs of a shape among which one that ends early enough is looked for; bounds
// the cost of a decision. Shapes tell lengths apart by powers of two, so that
// this many are in the way in one of them only.
inline constexpr size_t kMaxBackfill = 1000;

struct Reservation {
  absl::Time at;
  absl::btree_set<DeviceId> devices;
};

// When a job ends, running or started now; InfiniteFuture when nobody knows.
// One that has run for longer than expected ends now.
absl::Time ExpectedEnd(const Job& job, absl::Time now);

// Where and when, outside `excluded`, there is room first if nothing else
// starts; of devices that are free at the same time those with the lowest ids.
// Nothing when it is not known.
std::optional<Reservation> EarliestRoom(
    const State& state, const Need& need, absl::Time now,
    const absl::btree_set<DeviceId>& excluded);

// What ChooseNext, which calls it, does with a queue. Devices of a reservation
// are kept from queues of lower rank.
QueueChoice ChooseBackfill(const State& state, uint32_t queue,
                           const absl::btree_set<DeviceId>& held,
                           absl::Time now);

}  // namespace gpupool::scheduler
