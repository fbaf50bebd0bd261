// Compiles the programs of a training step, with the recomputation that a job
// asks for.
//
// The results belong to one compute thread; the back end must outlive them.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/graph/graph.h"
#include "engine/runtime/device_backend.h"
#include "engine/runtime/program.h"

namespace gpupool::v1 {
class Recompute;
}  // namespace gpupool::v1

namespace gpupool::engine {

// The graphs of a step before any pass. Borrowed.
struct StepGraphs {
  const Graph* train = nullptr;
  const Graph* accumulate = nullptr;  // null: a step has one batch
  // The last step of an epoch if that has fewer rows; else null.
  const Graph* short_step = nullptr;
  uint32_t batches_per_step = 1;
};

struct StepTarget {
  DeviceBackend* backend = nullptr;
  KernelOptions kernels;
  // The job's program for evaluation, with which the step shares weights and
  // arena; null: none.
  const Program* eval = nullptr;
};

struct StepPrograms {
  Program train;
  std::optional<Program> accumulate;
  std::optional<Program> short_step;
  // A note on what recomputation saves and costs, or a warning that it saves
  // nothing. Empty when none was requested or needed.
  std::string note;
};

// Compiles the programs. With a budget, all of the job's programs with their
// weights take at most that many bytes. If the budget is too low,
// INVALID_ARGUMENT names the least one that is possible. Every larger budget is
// possible, too.
absl::StatusOr<StepPrograms> CompileSteps(const StepGraphs& graphs,
                                          const v1::Recompute& recompute,
                                          const StepTarget& target);

}  // namespace gpupool::engine
