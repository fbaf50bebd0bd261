// Tells quickly, for many waiting jobs, that no room can be made. For each
// device it knows the bytes that would be free if all jobs left that may have
// to: those that stand far enough behind, and for a gang also those that may be
// moved.
//
// Waiting jobs should be asked about in their order. Each next job then has
// fewer running jobs behind it, so that each running job is taken out once.
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
  // Makes bounds for the queue's jobs. `reclaims`: for jobs to which borrowed
  // places are given back.
  RoomBound(const RunningJobs& jobs, uint32_t queue, bool reclaims)
      : jobs_(jobs),
        queue_(queue),
        entry_(jobs.state().queues().at(queue)),
        reclaims_(reclaims) {}

  // Must be called after running jobs were told to stop or devices were
  // reserved.
  void NoteChanges() { is_current_ = false; }

  // Returns false when no room can be made for the job. Nothing may be reserved
  // for the job or its tenant. Cost is linear in machines, and in devices for a
  // job that is exclusive or wants a certain device.
  bool MayHold(const Job& job);

 private:
  struct OnSpot {
    uint64_t open = 0;   // bytes if all jobs leave that give way
    uint64_t reach = 0;  // the same, with those that may be moved
    // Gangs that stay in each of the two cases.
    uint32_t open_gangs = 0;
    uint32_t reach_gangs = 0;
    uint32_t site = 0;
    bool counts = false;  // admitted and not reserved
  };
  struct Kind {
    absl::string_view name;
    bool matches = false;  // the need that MayHold was asked about
  };
  struct Site {
    size_t kind = 0;   // index into kinds_
    size_t first = 0;  // its first spot in by_site_, open_ and reach_
    size_t spots = 0;
    uint64_t most = 0;  // largest `open`
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

  // Returns the index of the kind in kinds_, where it adds unknown ones.
  size_t KindOf(absl::string_view name);
  void FindSites();
  void FindLeavers();
  // Starts anew, as if all jobs had left that may.
  void Restart();
  // Adds the bytes of the device that are open to jobs with that least need.
  void Add(const RunningJobs::Spot& from, const Need& least,
           OnSpot& spot) const;
  // Takes out the bytes of jobs that do not stand behind `stays`: they stay.
  void Raise(const Behind& stays);
  void Stay(const Leaver& leaver, bool in_reach);
  void Renew(Site& site);
  bool HoldsGang(const Need& need) const;
  // Returns the number of devices that are open to the need; with `only_whole`
  // on those machines where all are.
  size_t OpenInAll(const Need& need, bool only_whole) const;
  static absl::Span<const uint64_t> Of(const Site& site,
                                       const std::vector<uint64_t>& bytes) {
    return absl::MakeConstSpan(bytes).subspan(site.first, site.spots);
  }
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
  std::vector<Kind> kinds_;
  std::vector<size_t> by_site_;
  // Bytes of each site's devices for a gang, in descending order.
  std::vector<uint64_t> open_;
  std::vector<uint64_t> reach_;
  std::vector<Leaver> leavers_;
  Behind stays_;
  size_t staying_ = 0;  // the first ones of leavers_, which stay
  size_t raised_ = 0;   // number of calls of Raise since Restart
};

}  // namespace gpupool::scheduler
