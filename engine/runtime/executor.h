// Runs one program over and over: one loop over launches whose addresses were
// patched once. A run allocates nothing and branches on no op.
//
// Belongs to one compute thread. The weight store, the arena and the program's
// back end must outlive it; several executors may share store and arena as
// long as they run in turn. Where the host cannot reach the device's memory,
// inputs and outputs are copied as part of a run: by way of pinned memory of
// the executor's own, or straight from and to the caller's (RunOn).
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

// Bytes of the caller's for an input or output of a graph.
struct HostInput {
  absl::string_view name;
  absl::Span<const std::byte> bytes;
};
struct HostOutput {
  absl::string_view name;
  absl::Span<std::byte> bytes;
};

class Executor {
 public:
  // Takes resident memory, labelled "<holder> / packed" and shared with the
  // other executors on `weights`, fills constants and binds the kernels.
  // `arena` holds at least program.bytes().arena. `brought`: inputs that Bring
  // copies from elsewhere on the device before each run; where the host cannot
  // reach the device's memory it has no bytes of these.
  //   INVALID_ARGUMENT    `weights` lacks a persistent value of the program
  //                       or has it with another type
  //   RESOURCE_EXHAUSTED  from the allocator
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      Program program, const WeightStore& weights, absl::Span<std::byte> arena,
      const std::string& holder, CachingAllocator* allocator,
      absl::Span<const std::string> brought = {});
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
  // One run on bytes of the caller's in place of input() and output(). Every
  // input is given, from its first byte on; what is missing at its end is taken
  // as zeros. Of an output as much is written as there are bytes for. Where all
  // bytes of a tensor are registered with the transfer, the device copies them
  // itself. Addresses differ from run to run, so that only what lies between
  // the copies is recorded. On an error the outputs are undefined.
  //   INVALID_ARGUMENT  there is no such input or output, or it has fewer bytes
  absl::Status RunOn(absl::Span<const HostInput> inputs,
                     absl::Span<const HostOutput> outputs);
  // Queues a copy of all bytes of an input that is brought; nothing when no
  // node reads it. Before Start, and after the last run was finished.
  absl::Status Bring(absl::string_view name, absl::Span<const std::byte> from);
  // The two halves of Run: the first queues the work, the second waits for it
  // and makes the outputs readable. Inputs must not be written in between, nor
  // another executor on the same arena be started and finished out of turn.
  absl::Status Start();
  absl::Status Finish();
  // Whether Finish would not wait for long; returns at once.
  bool IsDone() { return program_.backend().RunIsDone(); }
  // As Run, slower: adds each node's time to `profile`, by the host's clock or,
  // where there is one, by the device's timer; then the first node begins when
  // the host had it queued, so that runs follow each other.
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
  absl::Status Stage(absl::Span<const std::string> brought);
  absl::Status QueueInputs();
  absl::Status QueueKernels();
  absl::Status QueueRun();
  absl::Status QueueOutputs();
  absl::Status StartOn(absl::Span<const HostInput> inputs,
                       absl::Span<const HostOutput> outputs);
  absl::Status QueueInput(const HostInput& input);
  absl::Status QueueOutput(const HostOutput& output);
  // Whether the device may be told of these addresses as they are.
  bool Reaches(absl::Span<const std::byte> host) const {
    return transfer_->host_visible() || transfer_->IsRegistered(host);
  }
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
  // Of a run with its copies, and of what lies between them; null where the
  // device has no recordings.
  std::unique_ptr<Recording> recording_;
  std::unique_ptr<Recording> kernels_recording_;
};

}  // namespace gpupool::engine
