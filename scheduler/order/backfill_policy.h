// EASY backfill. The first job that must wait gets a reservation: the earliest
// time at which the running jobs will have left enough devices. Later jobs
// start ahead of it only where they do not delay it: on other devices, or on
// the reserved ones if they end before its start. (Lifka, "The ANL/IBM SP
// scheduling system", 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.)
//
// Backfill needs run times, which the training loop or the user tells. A job of
// unknown run time starts only on devices outside the reservation. While a
// running job of unknown end is in the way there is no reservation; passes are
// then counted as with first come (queue_policy.h).
//
// Thread-safety: as State. Pure functions of it.
#pragma once

#include <cstddef>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "scheduler/order/earliest_rooms.h"
#include "scheduler/order/queue_policy.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// Maximum number of jobs of one shape that are searched for one that ends early
// enough. Bounds the cost of a decision. Shapes differ by powers of two of the
// run time, so that at most one shape has this many jobs that end too late.
inline constexpr size_t kMaxBackfill = 1000;

// Chooses the next start of a queue with backfill; called by NextStarts. The
// devices of a reservation are also kept from queues of lower rank.
QueueChoice ChooseBackfill(const QueueTurn& turn);

}  // namespace gpupool::scheduler
