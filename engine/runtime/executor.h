// Runs one program over and over: one loop over launches whose addresses were
// patched once. A run allocates nothing and branches on no op.
//
// Belongs to one compute thread. The weight store, the arena and the program's
// back end must outlive it; several executors may share store and arena as
// long as they run in turn. Where the host cannot reach the device's memory,
// inputs and outputs are copied as part of a run.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/memory/caching_allocator.h"
#include "engine/runtime/device_memory.h"
#include "engine/runtime/launch_timer.h"
#include "engine/runtime/profiler.h"
#include "engine/runtime/program.h"
#include "engine/runtime/weight_store.h"

namespace gpupool::engine {

class Executor {
 public:
  // Takes resident memory, labelled "<holder> / packed" and shared with the
  // other executors on `weights`, fills constants and binds the kernels.
  // `arena` holds at least program.bytes().arena.
  //   INVALID_ARGUMENT    `weights` lacks a persistent value of the program
  //                       or has it with another type
  //   RESOURCE_EXHAUSTED  from the allocator
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      Program program, const WeightStore& weights, absl::Span<std::byte> arena,
      const std::string& holder, CachingAllocator* allocator);
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // The bytes of a graph input, in host memory, to be written before every
  // run: they are undefined after it. Empty when the graph has none of that
  // name.
  absl::Span<std::byte> input(absl::string_view name) const;
  // The bytes of a graph output, in host memory, valid until the arena's next
  // run. Empty when the graph has none of that name.
  absl::Span<const std::byte> output(absl::string_view name) const;

  // Runs the load stage: folds and packs weights. Needed before the first run
  // and whenever stable persistent values have changed.
  absl::Status Load();
  // One run. On an error the outputs are undefined.
  absl::Status Run();
  // The two halves of Run: the first queues the work, the second waits for it
  // and makes the outputs readable. Inputs must not be written in between, nor
  // another executor on the same arena be started and finished out of turn.
  absl::Status Start();
  absl::Status Finish();
  // As Run, slower: adds each node's time to `profile`, by the host's clock or,
  // where there is one, by the device's timer.
  absl::Status RunProfiled(Profile* profile, LaunchTimer* timer = nullptr);

  const Program& program() const { return program_; }

 private:
  // An input or output of the graph whose bytes the host cannot reach.
  struct Staged {
    ValueId value;
    absl::Span<std::byte> host;
  };

  explicit Executor(Program program)
      : program_(std::move(program)),
        transfer_(&program_.backend().transfer()) {}
  absl::Status Bind(const WeightStore& weights, absl::Span<std::byte> arena);
  absl::Status FillConstants();
  absl::Status Stage();
  absl::Status QueueInputs();
  absl::Status QueueRun();
  absl::Status QueueOutputs();
  absl::Status RunTimed(Profile* profile, LaunchTimer* timer);
  std::byte* address(ValueId id) const {
    return addresses_[static_cast<size_t>(id.index)];
  }
  // Where the host reads or writes a value of the graph's border.
  absl::Span<std::byte> host_bytes(const std::vector<Staged>& staged,
                                   const Value& value) const;

  Program program_;
  Transfer* transfer_;
  std::vector<std::shared_ptr<const Allocation>> residents_;
  std::vector<std::byte*> addresses_;  // by value; null when unused
  std::vector<Kernel*> steps_;
  // Both empty where the host reaches the device's memory.
  std::vector<Staged> staged_inputs_;
  std::vector<Staged> staged_outputs_;
  std::unique_ptr<StagingBuffer> staging_;
  std::unique_ptr<Recording> recording_;  // null where there are none
};

}  // namespace gpupool::engine
