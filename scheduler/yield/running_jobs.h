// The running jobs at one moment, device by device, with the answers that every
// search for room needs: who would give way, who may be moved, which bytes come
// back anyway (preemption_policy.h).
//
// Thread-safety: as State. Refers to the state and to `excluded`.
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

// A job is moved only after it has run for this many times the cost of a
// restart, so that a move costs it a tenth of its time at most.
inline constexpr int kMoveAfterRestarts = 10;

// Standing of a running job among all. The largest one gives way first.
struct Behind {
  int64_t level = std::numeric_limits<int64_t>::max();     // level of its queue
  int64_t priority = std::numeric_limits<int64_t>::max();  // negated
  double standing = std::numeric_limits<double>::infinity();
  friend auto operator<=>(const Behind&, const Behind&) = default;
};

class RunningJobs {
 public:
  // A job on one of its devices. What sums need of the job is copied, since
  // they read all jobs for each queue, and again after each stop.
  struct OnDevice {
    const Job* job = nullptr;
    uint64_t bytes = 0;  // on the device
    uint32_t queue = 0;
    bool is_gang = false;
    int priority = 0;
    uint32_t level = 0;  // level of its queue
    double standing = 0;
    bool can_give_way = false;  // not told to stop, had its minimum run
    bool may_move = false;
    bool is_borrowed = false;  // beyond its tenant's guarantee
    bool stops = false;

    Behind behind() const { return {level, -int64_t{priority}, standing}; }
  };
  struct Spot {
    const Device* device = nullptr;
    size_t first = 0;         // index of its first job
    uint64_t free_bytes = 0;  // including the bytes that strays give back
    uint32_t site = 0;
    bool admitted = false;  // takes some job once others have left
  };

  // Takes in the running jobs. Devices in `excluded`, which must outlive this,
  // admit no job.
  RunningJobs(const State& state, absl::Time now,
              const absl::btree_set<DeviceId>& excluded);

  // Must be called after some of the jobs were told to stop.
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

  // Returns the limit beyond which jobs give way to the job: those further
  // behind do, where its queue takes from theirs.
  Behind Stays(const Job& job) const;
  bool TakesFrom(uint32_t queue, const OnDevice& running) const {
    return running.can_give_way &&
           state_.queues().TakesFrom(queue, running.queue);
  }
  // Returns whether the running job's place may be given back to a job in the
  // queue that reclaims one. Nobody gives way to a queue of lower rank.
  bool IsBorrowedFrom(uint32_t queue, const OnDevice& running) const {
    return running.can_give_way && running.is_borrowed &&
           running.level >= state_.queues().at(queue).level;
  }
  // A waiting job, and what it may take from running ones.
  struct Claim {
    const Job& job;
    bool reclaims = false;  // Reclaims(job)
    Behind stays;           // Stays(job)
  };
  Claim ClaimOf(const Job& job) const {
    return {job, Reclaims(job), Stays(job)};
  }
  // Returns whether the running job makes room now, if the other one needs it.
  bool GivesWay(const Claim& claim, const OnDevice& running) const {
    return (claim.reclaims && IsBorrowedFrom(claim.job.queue, running)) ||
           (running.behind() > claim.stays &&
            TakesFrom(claim.job.queue, running));
  }
  // Returns whether others may give way to jobs of the queue.
  bool MayTake(uint32_t queue) const;
  // Returns whether the job's tenant stays within its guarantee with it.
  bool IsGuaranteed(const Job& job) const;
  // Returns whether borrowed places are given back to the job: IsGuaranteed,
  // and others exceed their guarantees.
  bool Reclaims(const Job& job) const;
  // Returns false when nobody would give way to the job.
  bool SomeoneGivesWay(const Job& job) const;

 private:
  void Sum();

  const State& state_;
  std::vector<OnDevice> jobs_;  // sorted by device
  std::vector<Spot> spots_;     // by id; a last one marks the end of jobs_
  // The extremes of the jobs that can give way, for each queue.
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
