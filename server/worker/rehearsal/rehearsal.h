// A rehearsal of a version: it is loaded and run once in a process where
// nothing else is, before it may run beside others. What it does to its process
// hurts nobody.
//
// Thread-safety: the compute thread.
#pragma once

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/worker/engine.h"

namespace gpupool::server {

// Time after which no further batch is tried.
inline constexpr absl::Duration kRehearsedRuns = absl::Seconds(5);

// Loads the version, which compiles its programs, and runs it on zeros and on
// random numbers that are the same each time, in batches of 1, 2, 4, ... rows.
// The largest batches are left out if the time of kRehearsedRuns has passed
// before. The process ends by SIGALRM when all that takes longer than
// RehearsalLimit.
//   RESOURCE_EXHAUSTED  a run needs more memory than was planned
//   other codes         those of Engine::LoadModel
// A model that refuses such numbers is well. So is one that needs more memory
// than there is, since the scheduler decides about that.
absl::StatusOr<worker::v1::VersionReply> Rehearse(
    Engine& engine, const worker::v1::LoadVersion& request);

}  // namespace gpupool::server
