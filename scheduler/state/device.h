// A device as the scheduler knows it: what it has, and what is there.
//
// Thread-safety: a value; as State, whose invariants hold for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// Nothing new is placed on a device that is drained, until it is resumed.
struct DeviceDrain {
  // Jobs that run there go on to their end; else they checkpoint and leave.
  bool lets_finish = false;
  std::string reason;  // for people; may be empty
  friend bool operator==(const DeviceDrain&, const DeviceDrain&) = default;
};

struct Device {
  // Decisions look at these of every device: they lie side by side.
  DeviceId id;
  uint32_t site = 0;     // this kind on its machine; below State::sites()
  uint32_t machine = 0;  // index into State::machines()
  bool ready = false;
  uint64_t full_bytes = 0;     // its limit when all of it may be used
  uint64_t limit_bytes = 0;    // that share of full_bytes: what fits here
  uint64_t job_bytes = 0;      // sum over `jobs`
  uint64_t version_bytes = 0;  // sum over `versions`
  uint64_t stray_bytes = 0;    // sum over both kinds of strays
  uint32_t gangs = 0;          // of `jobs`, those on several devices
  // Live attempts whose rank here has ended, while others hold their devices:
  // nothing starts before a machine's devices come back together.
  uint32_t settling = 0;
  // Jobs were told to make room here for this one: nothing else starts.
  std::optional<JobId> reserved_for;
  // Jobs start here again after it.
  absl::Time cools_until = absl::InfinitePast();
  std::optional<DeviceDrain> drain;
  absl::btree_set<JobId> jobs;          // with a rank here that has not ended
  absl::btree_set<VersionId> versions;  // placed

  std::string name;     // "cpu:0"
  std::string kind;     // "cpu"
  double fraction = 1;  // of full_bytes that may be used, (0, 1]
  // Things that the worker holds but should not: told to stop, bytes not back
  // yet.
  absl::btree_map<AttemptRef, uint64_t> stray_attempts;
  absl::btree_map<VersionId, uint64_t> stray_versions;
  // Faults of the device in a row, and the last one.
  uint32_t faults = 0;
  absl::Time last_fault = absl::InfinitePast();
  std::string fault_text;

  bool cools() const { return cools_until != absl::InfinitePast(); }
  bool open() const { return ready && !drain; }

  uint64_t committed_bytes() const {
    return job_bytes + version_bytes + stray_bytes;
  }
  // Returns the bytes that nothing holds once some more have been given back;
  // below 0, once others have taken some.
  uint64_t free_bytes(int64_t returned = 0) const {
    const uint64_t used = committed_bytes() - static_cast<uint64_t>(returned);
    return used < limit_bytes ? limit_bytes - used : 0;
  }
};

}  // namespace gpupool::scheduler
