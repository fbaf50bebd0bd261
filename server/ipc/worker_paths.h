// Paths of one worker's files below the state folder. A value.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace gpupool::server {

struct WorkerPaths {
  std::string folder;  // STATE/workers/cpu-0
  std::string socket;
  std::string lease;
  std::string log;
  std::string spool;
  std::string blobs;  // STATE/blobs, shared by all workers
};

// Name of the worker in which versions run before they may run beside others.
inline constexpr char kRehearsalWorker[] = "rehearsal";

// Returns how users know the worker of a device: "the worker of cpu:0", or "the
// planner" for "meta".
std::string WorkerTitle(const std::string& device);

// Returns the folder of all workers' folders, STATE/workers.
std::string WorkersFolderIn(const std::string& state_dir);

// Returns the spool in a worker's folder.
std::string SpoolIn(const std::string& folder);

// Returns the paths. InvalidArgument unless `device` is "meta", "rehearsal",
// "cpu:N" or "cuda:N" with 0 <= N <= engine::kMaxDeviceIndex.
absl::StatusOr<WorkerPaths> WorkerPathsFor(const std::string& state_dir,
                                           const std::string& device);

}  // namespace gpupool::server
