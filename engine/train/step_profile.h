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

// The most times of nodes that one trace may have: about 40 MB of text.
inline constexpr uint64_t kMostTracedNodes = 200'000;

// A program that a step may run, and the most runs that it has there.
struct StepProgram {
  std::string name;  // "step", "accumulate", "short step", "request"
  Executor* executor = nullptr;
  uint32_t runs_per_step = 1;
};

class StepProfile {
 public:
  // Checks the timer and the number of times. The first of the programs, at
  // least one, names what is counted. The executors and `timer` must
  // outlive the profile; a null `timer` stands for the host's clock.
  // INVALID_ARGUMENT when several steps have more than kMostTracedNodes times;
  // one step may have any number. Else the timer's errors.
  static absl::StatusOr<std::unique_ptr<StepProfile>> Create(
      uint32_t steps, absl::Span<const StepProgram> programs,
      LaunchTimer* timer);

  // Runs a program once and waits for it. Errors as Executor::RunProfiled.
  absl::Status Run(Executor& executor);

  // Returns the runs so far as Chrome's trace events.
  std::string Trace() const;

 private:
  struct Profiled {
    StepProgram program;
    Profile profile;
  };

  explicit StepProfile(LaunchTimer* timer) : timer_(timer) {}

  LaunchTimer* const timer_;
  std::vector<Profiled> programs_;
};

}  // namespace gpupool::engine
