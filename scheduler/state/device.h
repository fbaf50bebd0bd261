// A device as the scheduler knows it: its size, its state and its load.
//
// Thread-safety: a value; as State, whose invariants cover it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/container/btree_map.h"
#include "absl/container/btree_set.h"
#include "absl/time/time.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

// Nothing new is placed on a drained device until it is resumed.
struct DeviceDrain {
  // Running jobs go on to their end; otherwise they checkpoint and leave.
  bool lets_finish = false;
  std::string reason;  // for people; may be empty
  friend bool operator==(const DeviceDrain&, const DeviceDrain&) = default;
};

struct Device {
  // Fields that decisions read of every device come first, side by side.
  DeviceId id;
  uint32_t site = 0;     // number of this kind on its machine
  uint32_t machine = 0;  // index into State::machines()
  bool ready = false;
  uint64_t full_bytes = 0;     // limit when all of it may be used
  uint64_t limit_bytes = 0;    // usable bytes: a part of full_bytes
  uint64_t job_bytes = 0;      // sum over `jobs`
  uint64_t version_bytes = 0;  // sum over `versions`
  uint64_t stray_bytes = 0;    // sum over both kinds of strays
  uint32_t gangs = 0;          // how many of `jobs` run on several devices
  // Number of live attempts whose rank here has ended while others hold their
  // devices. Nothing starts before a gang's devices come back together.
  uint32_t settling = 0;
  // Job for which others were told to make room here. Nothing else starts.
  std::optional<JobId> reserved_for;
  // Time after which jobs start here again, after a fault.
  absl::Time cools_until = absl::InfinitePast();
  std::optional<DeviceDrain> drain;
  absl::btree_set<JobId> jobs;          // with a live rank here
  absl::btree_set<VersionId> versions;  // placed

  std::string name;     // "cpu:0"
  std::string kind;     // "cpu"
  double fraction = 1;  // usable part of full_bytes, (0, 1]
  // Attempts and versions that the worker holds but should not: told to stop,
  // their bytes not back yet.
  absl::btree_map<AttemptRef, uint64_t> stray_attempts;
  absl::btree_map<VersionId, uint64_t> stray_versions;
  // Consecutive faults of this device, and the time of the latest.
  uint32_t faults = 0;
  absl::Time last_fault = absl::InfinitePast();
  std::string fault_text;

  bool cools() const { return cools_until != absl::InfinitePast(); }
  bool open() const { return ready && !drain; }

  uint64_t committed_bytes() const {
    return job_bytes + version_bytes + stray_bytes;
  }
  // Returns the free bytes once `returned` more bytes have been given back.
  // `returned` is negative when others have taken bytes.
  uint64_t free_bytes(int64_t returned = 0) const {
    const uint64_t used = committed_bytes() - static_cast<uint64_t>(returned);
    return used < limit_bytes ? limit_bytes - used : 0;
  }
};

}  // namespace gpupool::scheduler
