// Chooses the job that starts next: pure functions of the state.
//
// Queues of higher rank come first (queues.h). Within a queue jobs go by
// priority, then by standing (order_policy.h), then by submission.
//
// A job that does not fit now lets later ones pass, so that devices do not
// idle. After kMaxPasses starts of later jobs the scheduler holds as many
// devices for it as it needs, so that it cannot starve. Held devices stay
// usable for earlier jobs, and the job takes none before all of them are free
// enough. So two jobs that wait for several devices never wait for each other.
//
// A job does not start while an earlier attempt of it is still being stopped.
//
// Thread-safety: as State.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "scheduler/order/earliest_rooms.h"
#include "scheduler/place/free_devices.h"
#include "scheduler/place/placement_policy.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// Later jobs that may start ahead of a waiting one before devices are held for
// it.
inline constexpr uint32_t kMaxPasses = 16;
// Maximum number of shapes that one decision looks at. Bounds the cost of a
// step when the queue is long and diverse. The shapes behind wait for their
// turn.
inline constexpr size_t kMaxScan = 256;

struct NextStart {
  JobId job;
  std::vector<DeviceId> devices;  // by rank
  // Earlier jobs that were passed and still wait. Leaves out jobs to which the
  // starting job would have to give way: they cannot starve.
  std::vector<JobId> passed;
};

// Returns true when the first job's queue has the higher rank, or when both
// share a queue and the first job has the higher priority.
bool StandsAbove(const State& state, const Job& first, const Job& second);

// Returns true when the start would exceed a limit of the job's tenant, of
// devices or bytes, or of its queue.
bool IsAtLimit(const State& state, const Job& job);

// Returns the queued jobs that may start next, in order: the jobs with reserved
// devices, and the first job of each other shape. No later job of a shape fits
// where the first does not. Leaves out jobs with an earlier attempt that is
// still being stopped.
std::vector<const Job*> Candidates(const State& state);
// Returns the candidates of one queue. Queues with waiting jobs share kMaxScan
// equally.
std::vector<const Job*> CandidatesOf(const State& state, uint32_t queue);

// Holds what a queue looks at when it is its turn to start a job.
struct QueueTurn {
  const State& state;
  uint32_t queue = 0;
  const absl::btree_set<DeviceId>& held;  // its jobs keep off these devices
  absl::Time now;
  FreeDevices& free;     // what its jobs may use outside `held`
  EarliestRooms& rooms;  // kept for this queue from turn to turn
};

// The job that one queue would start, and its demands on queues of lower rank.
struct QueueChoice {
  std::optional<NextStart> start;
  // Set when nothing starts: the queue's waiting jobs that could run on an
  // empty pool, and the devices that they keep free for themselves.
  std::vector<JobId> waiting;
  absl::btree_set<DeviceId> kept;
};

// Chooses the jobs that start in one decision, one after another. It keeps what
// a start does not change.
class NextStarts {
 public:
  // Keeps off the devices in `held`, which are kept free for a version, and off
  // those that earlier jobs hold. `held` must outlive this.
  NextStarts(const State& state, const absl::btree_set<DeviceId>& held,
             absl::Time now)
      : state_(state), held_(held), now_(now) {}

  // Returns the first queued job that fits now, or nothing. Between two calls
  // nothing may happen but that jobs start, are passed, or give up reserved
  // devices.
  std::optional<NextStart> Choose();

 private:
  // Keeps a queue's answer that nothing of it fits. After starts of other
  // queues' jobs, which only take room, asking again would give the same.
  struct Nothing {
    absl::btree_set<DeviceId> excluded;
    QueueChoice choice;
  };

  // Forgets the answers that the last start may have changed.
  void Forget();
  // Asks one queue, whose jobs keep off the devices in `excluded`, unless its
  // last answer still holds. AskAgain asks in any case.
  QueueChoice Ask(uint32_t queue, const absl::btree_set<DeviceId>& excluded);
  QueueChoice AskAgain(uint32_t queue,
                       const absl::btree_set<DeviceId>& excluded);

  const State& state_;
  const absl::btree_set<DeviceId>& held_;
  const absl::Time now_;
  std::vector<EarliestRooms> rooms_;             // by queue
  std::vector<std::optional<Nothing>> nothing_;  // by queue
  // Outside held_, for the queues that may use all devices. Gone after a start.
  std::optional<FreeDevices> free_;
  // Facts of the last call, and the job that it started.
  size_t candidates_ = 0;  // MostCandidates
  absl::btree_set<JobId> reserving_;
  std::optional<NextStart> last_;
};

}  // namespace gpupool::scheduler
