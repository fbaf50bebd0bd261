// When will the running jobs have left enough devices for a need, and which?
//
// Thread-safety: as State. Functions are pure; EarliestRooms: none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/btree_set.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "scheduler/place/need.h"
#include "scheduler/state/state.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

struct Reservation {
  absl::Time at;
  absl::btree_set<DeviceId> devices;
};

// Returns when a job ends that runs or is started now, or InfiniteFuture when
// nobody knows. A job that has run for longer than expected ends now.
absl::Time ExpectedEnd(const Job& job, absl::Time now);

// Returns the earliest room outside `excluded` if nothing else starts. Of
// devices that become free at the same time it takes those with the lowest ids.
// Returns nothing when the time is not known.
std::optional<Reservation> EarliestRoom(
    const State& state, const Need& need, absl::Time now,
    const absl::btree_set<DeviceId>& excluded);

// Finds the same again and again while jobs only start, at one time. It keeps
// when each device becomes free for the last need. After a start it looks again
// only at devices whose load has changed.
class EarliestRooms {
 public:
  // Returns what EarliestRoom would. Between two calls nothing may change but
  // that queued jobs start, move in the queue, or give up reserved devices.
  std::optional<Reservation> Find(const State& state, const Need& need,
                                  absl::Time now,
                                  const absl::btree_set<DeviceId>& excluded);

  // The devices of one kind on one machine.
  struct SiteRoom {
    absl::string_view kind;
    // By time of becoming free.
    std::vector<std::pair<absl::Time, DeviceId>> free;
    size_t devices = 0;
    // Returns when `count` of its devices are free.
    absl::Time At(size_t count) const;
  };

 private:
  // All that starts change on a device. No job leaves, so that their number
  // tells whether the jobs are the same.
  struct Load {
    size_t jobs = 0;
    uint64_t job_bytes = 0;
    uint32_t gangs = 0;
    std::optional<JobId> reserved_for;
    friend bool operator==(const Load&, const Load&) = default;
  };
  struct OnDevice {
    const Device* device = nullptr;
    Load load;
    absl::Time at;  // when it is free for the need
  };

  static Load LoadOf(const Device& device);
  // Forgets everything and looks at all devices that the need may use.
  void Restart(const State& state, const Need& need, absl::Time now,
               const absl::btree_set<DeviceId>& excluded);
  void Renew(const State& state, const Need& need, absl::Time now);

  std::optional<JobId> job_;  // whose need it was
  absl::btree_set<DeviceId> excluded_;
  std::vector<OnDevice> devices_;  // not excluded, by id
  std::vector<SiteRoom> sites_;
  size_t largest_ = 0;  // most devices of a site
};

}  // namespace gpupool::scheduler
