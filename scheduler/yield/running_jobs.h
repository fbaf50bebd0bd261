// The running jobs as they stand at one moment, device by device, with what
// everybody asks of them who looks for room: who would give way, who may be
// moved, what comes back anyway (preemption_policy.h).
//
// Thread-safety: as State. Refers to the state and what it was made with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "scheduler/place/obstacle.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// A move costs a job at most one part in so many of the time that it has run.
inline constexpr int kMoveAfterRestarts = 10;

// How far behind a job stands: the larger one gives way first.
struct Behind {
  int64_t level = std::numeric_limits<int64_t>::max();     // of its queue
  int64_t priority = std::numeric_limits<int64_t>::max();  // negated
  double standing = std::numeric_limits<double>::infinity();
  friend auto operator<=>(const Behind&, const Behind&) = default;
};

class RunningJobs {
 public:
  // A job on one of its devices.
  struct OnDevice {
    const Job* job = nullptr;
    int priority = 0;
    uint32_t level = 0;  // of its queue
    double standing = 0;
    bool can_give_way = false;  // was not told to stop, had its minimum run
    bool may_move = false;
    bool is_borrowed = false;  // beyond what its tenant is guaranteed
    bool stops = false;

    Behind behind() const { return {level, -int64_t{priority}, standing}; }
  };
  struct Spot {
    const Device* device = nullptr;
    size_t first = 0;         // of its jobs
    uint64_t free_bytes = 0;  // and what strays give back
    uint32_t site = 0;
    bool admitted = false;  // takes some job once others have left
  };

  // Nothing is asked of devices in `excluded`, which must outlive this.
  RunningJobs(const State& state, absl::Time now,
              const absl::btree_set<DeviceId>& excluded);

  // Some of them were told to stop since.
  void NoteStops();

  const State& state() const { return state_; }
  absl::Span<const Spot> spots() const {
    return absl::MakeConstSpan(spots_).first(spots_.size() - 1);
  }
  absl::Span<const OnDevice> On(const Spot& spot) const {
    return absl::MakeConstSpan(jobs_).subspan(spot.first,
                                              (&spot)[1].first - spot.first);
  }
  // Returns whether a job with that need could start there once jobs have left.
  bool IsAdmitted(const Spot& spot, const Need& need) const {
    Meanwhile until = WhenEmptied(*spot.device);
    until.cooled = until.promise_kept = false;
    return spot.admitted &&
           !ObstacleFor(state_, *spot.device, need, until).has_value();
  }

  // Those that stand further behind give way to the job, where its queue takes
  // from theirs.
  Behind Stays(const Job& job) const;
  bool TakesFrom(uint32_t queue, const OnDevice& running) const {
    return running.can_give_way &&
           state_.queues().TakesFrom(queue, running.job->queue);
  }
  // Its place is given back to a job in the queue that reclaims one. Nobody
  // gives way to a queue of lower rank.
  bool IsBorrowedFrom(uint32_t queue, const OnDevice& running) const {
    return running.is_borrowed &&
           running.level >= state_.queues().at(queue).level;
  }
  // Jobs of the queue may find that others give way.
  bool MayTake(uint32_t queue) const;
  // Its tenant stays within what it is guaranteed, and others do not: borrowed
  // places are given back to it.
  bool Reclaims(const Job& job) const;
  // False: nobody would.
  bool SomeoneGivesWay(const Job& job) const;

 private:
  void Sum();

  const State& state_;
  std::vector<OnDevice> jobs_;  // device by device
  std::vector<Spot> spots_;     // by id; one more ends the last one's jobs
  // Of those that can give way, by queue.
  struct Last {
    int priority = 0;     // the lowest
    double standing = 0;  // the largest
  };
  std::vector<Last> last_;
  int64_t deepest_level_ = -1;
  bool has_guarantees_ = false;
  bool any_borrowed_ = false;
};

}  // namespace gpupool::scheduler
