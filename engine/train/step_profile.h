// StepProfile: times the nodes of a training's steps, or of a served model's
// requests, and shows them as a trace for chrome://tracing and Perfetto.
//
// Thread-safety: compute thread only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/runtime/executor.h"
#include "engine/runtime/launch_timer.h"
#include "engine/runtime/profiler.h"

namespace gpupool::engine {

// The most times of nodes that one trace may have: about 60 MB of text.
inline constexpr uint64_t kMostTracedNodes = 200'000;

// A program that a step may run, and the most runs that it has there.
struct StepProgram {
  std::string name;  // "step", "accumulate", "short step", "request"
  Executor* executor = nullptr;  // null: there is no such program
  uint32_t runs_per_step = 1;
};

// The programs that share an arena.
struct SteppedPrograms {
  std::vector<StepProgram> programs;  // the first must be there
  uint64_t arena_bytes = 0;
  // Planned bytes of the holder beside the arena.
  uint64_t outside_bytes = 0;
};

class StepProfile {
 public:
  // Checks the timer and the number of times. The first of the programs names
  // what is counted. The executors and `timer` must outlive the profile; a null
  // `timer` stands for the host's clock.
  // INVALID_ARGUMENT when several steps have more than kMostTracedNodes times;
  // one step may have any number. Else the timer's errors.
  static absl::StatusOr<std::unique_ptr<StepProfile>> Create(
      uint32_t steps, const SteppedPrograms& stepped, LaunchTimer* timer);

  // Runs a program once and waits for it. Errors as Executor::RunProfiled.
  absl::Status Run(Executor& executor);

  // Returns the runs so far as Chrome's trace events, with memory.
  std::string Trace() const;

 private:
  struct Profiled {
    StepProgram program;
    Profile profile;
  };

  StepProfile(const SteppedPrograms& stepped, LaunchTimer* timer)
      : arena_bytes_(stepped.arena_bytes),
        outside_bytes_(stepped.outside_bytes),
        timer_(timer) {}

  const uint64_t arena_bytes_;
  const uint64_t outside_bytes_;
  LaunchTimer* const timer_;
  std::vector<Profiled> programs_;
};

}  // namespace gpupool::engine
