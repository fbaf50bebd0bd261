// Answers one request with a model that runs in stages.
//
// Belongs to one compute thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/runtime/executor.h"
#include "engine/serving/program_cache.h"
#include "engine/serving/stage_walk.h"

namespace gpupool::engine {

// Most stages that one request runs, iterations of loops included.
inline constexpr int kMaxRunStages = 1 << 20;

// Returns the names of the program's inputs and outputs that stay on the
// device: all but `host_inputs` and those that the host reads.
std::vector<std::string> PassedNames(const Program& program,
                                     const StageEnd* end,
                                     absl::Span<const std::string> host_inputs);

class StageRun {
 public:
  StageRun(StageStore store, Transfer* transfer)
      : walk_(std::move(store)), transfer_(transfer) {}
  // Waits until nothing is queued that uses the store.
  ~StageRun() { (void)transfer_->Synchronize(); }
  StageRun(const StageRun&) = delete;
  StageRun& operator=(const StageRun&) = delete;

  // Returns the bytes that are passed on now.
  uint64_t bytes() const { return walk_.store().bytes(); }
  // Returns the answers after which the next stage begins.
  const StageAnswers& answers() const { return walk_.answers(); }

  // Copies what earlier stages passed on into the executor's inputs.
  absl::Status Bring(Executor& executor);
  // Runs a stage before the last one on these inputs of the model, and does
  // what its end asks for.
  //   INVALID_ARGUMENT    the host cannot compute with these numbers
  //   RESOURCE_EXHAUSTED  a loop goes on too long
  absl::Status Run(ProgramCache::Entry& stage,
                   absl::Span<const HostInput> inputs);

 private:
  using Reads = std::vector<StageNumbers>;
  // Runs the stage and returns the numbers that the host reads.
  absl::StatusOr<Reads> Read(Executor& executor, const StageEnd& end,
                             absl::Span<const HostInput> inputs);
  absl::Status Compute(const StageEnd& end, const Reads& reads);
  absl::Status Begin(Executor& executor, const StageEnd& end,
                     const Reads& reads);
  absl::Status Iterate(Executor& executor, const StageEnd& end,
                       const Reads& reads);
  absl::Status TakeStates(Executor& executor, const StageEnd& end);
  absl::Status SetIteration(const StageEnd& end);
  absl::Status Write(const std::string& name, const StageNumbers& numbers);

  StageWalk walk_;
  Transfer* transfer_;
  int stages_ = 0;
};

}  // namespace gpupool::engine
