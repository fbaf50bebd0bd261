// A trained instance of a model as the scheduler knows it: its size and its
// place.
//
// Thread-safety: a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/time/time.h"
#include "scheduler/state/types.h"

namespace gpupool::scheduler {

struct Version {
  VersionId id;
  std::string model;
  uint64_t number = 0;
  uint64_t bytes = 0;
  std::string tenant;                  // that it belongs to; empty: none
  std::string wanted_device;           // as in device_choice.h
  std::optional<uint64_t> next_bytes;  // size from the next placement on

  VersionState state = VersionState::kUnloaded;
  std::optional<DeviceId> device;
  uint64_t load = 0;       // number of the last LoadVersion; fences old answers
  uint64_t request = 0;    // order of load requests
  bool load_sent = false;  // LoadVersion is not answered yet
  bool reload = false;     // UNLOADING, but wanted again
  // Set until the version becomes ready for the first time: it then replaces
  // older versions.
  bool replaces_older = false;
  absl::Time retry_time = absl::InfinitePast();
  // Its requests wait for too long (load_policy.h).
  bool under_load = false;
  // Ends of workers that loaded or ran it, and the time of the last one.
  uint32_t worker_ends = 0;
  absl::Time last_worker_end = absl::InfinitePast();
  // LOADING without a place: a worker ended under its work, or a job has just
  // published it. It must be rehearsed before it gets a place.
  bool suspected = false;
  bool rehearsal_sent = false;  // RehearseVersion is not answered yet
  std::string error;            // why it waits or failed
};

}  // namespace gpupool::scheduler
