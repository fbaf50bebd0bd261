// Tells quickly, for many waiting jobs, that no room can be made for one. It
// knows of every device how much would be free if all went that may go: those
// that stand far enough behind, and for jobs on several devices those that may
// be moved, too. Jobs that are asked about in the order in which they wait have
// fewer and fewer behind them, so that each running job is taken out once.
//
// Thread-safety: as State. Refers to the running jobs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "scheduler/place/need.h"
#include "scheduler/yield/running_jobs.h"

namespace gpupool::scheduler {

class RoomBound {
 public:
  // For jobs of the queue. `reclaims`: for those to which borrowed places are
  // given back.
  RoomBound(const RunningJobs& jobs, uint32_t queue, bool reclaims)
      : jobs_(jobs),
        queue_(queue),
        entry_(jobs.state().queues().at(queue)),
        reclaims_(reclaims) {}

  // Of the running jobs some were told to stop, or devices were reserved.
  void NoteChanges() { is_current_ = false; }

  // False: no room can be made for the job, for which nothing is reserved and
  // whose tenant has no reservation. Cost is linear in machines, and in devices
  // for a job that is exclusive or wants a certain device.
  bool MayHold(const Job& job);

 private:
  struct OnSpot {
    uint64_t open = 0;   // bytes if all leave that give way
    uint64_t reach = 0;  // and those that may be moved
    // Jobs on several devices that stay then.
    uint32_t open_gangs = 0;
    uint32_t reach_gangs = 0;
    uint32_t site = 0;
    bool counts = false;  // admitted and not reserved
  };
  struct Site {
    absl::string_view kind;
    size_t first = 0;  // of its spots in by_site_, and of what is beside them
    size_t spots = 0;
    uint64_t most = 0;  // of `open`
    bool is_current = false;
  };
  struct Leaver {
    Behind behind;
    const RunningJobs::OnDevice* job = nullptr;
    size_t spot = 0;
    friend bool operator<(const Leaver& a, const Leaver& b) {
      return a.behind < b.behind;
    }
  };

  void FindSites();
  void FindLeavers();
  // As if all left.
  void Restart();
  // Adds what of the device is open to jobs with that least need.
  void Add(const RunningJobs::Spot& from, const Need& least,
           OnSpot& spot) const;
  // Takes out those that do not stand behind `stays`.
  void Raise(const Behind& stays);
  void Stay(const Leaver& leaver, bool in_reach);
  void Renew(Site& site);
  bool HoldsGang(const Need& need) const;
  bool ADeviceHolds(const Need& need) const;

  bool MayUse(const RunningJobs::Spot& spot) const;
  bool IsGivenBack(const RunningJobs::OnDevice& job) const;

  const RunningJobs& jobs_;
  const uint32_t queue_;
  const Queues::Entry& entry_;
  const bool reclaims_;
  bool is_current_ = false;
  std::vector<OnSpot> spots_;
  std::vector<Site> sites_;
  std::vector<size_t> by_site_;
  // Of each site's devices, for a job on several, the most first.
  std::vector<uint64_t> open_;
  std::vector<uint64_t> reach_;
  std::vector<Leaver> leavers_;
  Behind stays_;
  size_t staying_ = 0;  // of leavers_, the first ones
  size_t raised_ = 0;   // times since the restart
};

}  // namespace gpupool::scheduler
