// A rehearsal of a training job: its programs are compiled, and one step and
// one evaluation run on random rows, in a process where nothing else is. What
// the job does to its process hurts nobody.
//
// Thread-safety: the compute thread.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "gpupool/worker/v1/worker.pb.h"
#include "server/worker/engine.h"

namespace gpupool::server {

// The job's id and attempt while it is rehearsed. Attempts on devices count
// from 1.
inline constexpr uint64_t kRehearsedJob = 1;
inline constexpr uint32_t kRehearsedAttempt = UINT32_MAX;

// Most operations of a step that is made. Larger batches are cut.
inline constexpr uint64_t kMostStepFlops = uint64_t{1} << 37;

// Plans the job for this process's kind of device, and makes a step of it on
// one device within that plan. Its batch is made smaller if a step has more
// than kMostStepFlops operations. Without room on the host, or when even a
// batch of one row has too many operations, it is only compiled. The process
// ends by SIGALRM when all that takes longer than RehearsalLimit.
//   RESOURCE_EXHAUSTED  the step or the evaluation needs more memory than was
//                       planned
//   other codes         those of Engine::PlanTraining
// A job that refuses random rows is well: its own attempt may fail, which hurts
// nobody.
absl::StatusOr<worker::v1::PlanReply> RehearseTraining(
    Engine& engine, const worker::v1::PlanTraining& request);

}  // namespace gpupool::server
