// StepProfile: where the time of a training's steps goes, node by node, as a
// trace for chrome://tracing and Perfetto.
//
// Threads: the compute thread.
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

// Times of nodes that one trace may have: about 40 MB of text.
inline constexpr uint64_t kMostTracedNodes = 200'000;

// A program that a step runs, and how often.
struct StepProgram {
  std::string name;  // "step", "accumulate"
  Executor* executor = nullptr;
  uint32_t runs_per_step = 1;
};

class StepProfile {
 public:
  // The executors and `timer` outlive the profile; a null `timer` stands for
  // the host's clock. InvalidArgument when so many steps have more than
  // kMostTracedNodes times; one step is never too many. Errors of the timer.
  static absl::StatusOr<std::unique_ptr<StepProfile>> Create(
      uint32_t steps, absl::Span<const StepProgram> programs,
      LaunchTimer* timer);

  // Makes one run of a program and waits for it. As Executor::RunProfiled.
  absl::Status Run(Executor& executor);

  // The runs so far, as Chrome's trace events.
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
