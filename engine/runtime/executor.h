// Runs one program repeatedly: one loop over launches whose addresses were
// patched once. A run allocates nothing and does not branch on ops.
//
// Belongs to one compute thread. The weight store, the arena, the allocator and
// the program's back end must outlive it. Several executors may share store and
// arena if they run in turn. If the host cannot reach the device's memory,
// inputs and outputs are copied as part of a run, either through pinned memory
// of the executor or directly from and to the caller's memory (RunOn).
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

// Bytes of the caller for an input or output of a graph.
struct HostInput {
  absl::string_view name;
  absl::Span<const std::byte> bytes;
};
struct HostOutput {
  absl::string_view name;
  absl::Span<std::byte> bytes;
};

// The memory that an executor works on.
struct ExecutorMemory {
  const WeightStore& weights;
  absl::Span<std::byte> arena;  // at least program.bytes().arena
  const std::string& holder;
  CachingAllocator* allocator;
};

class Executor {
 public:
  // Allocates resident memory, labelled "<holder> / packed" and shared with the
  // other executors on the weights, fills constants and binds the kernels.
  // `brought` names the inputs that Bring copies from elsewhere on the device
  // before each run, and the outputs that only Take copies. If the host cannot
  // reach the device's memory, it has no bytes of these.
  //   INVALID_ARGUMENT    the weights lack a persistent value of the program
  //                       or have it with another type
  //   RESOURCE_EXHAUSTED  from the allocator
  static absl::StatusOr<std::unique_ptr<Executor>> Create(
      Program program, const ExecutorMemory& memory,
      absl::Span<const std::string> brought = {});
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // Returns the bytes of a graph input in host memory. Write them before every
  // run, because a run leaves them undefined. Empty when the graph has no such
  // input.
  absl::Span<std::byte> input(absl::string_view name) const;
  // Returns the bytes of a graph output in host memory, valid until the arena's
  // next run. Empty when the graph has no such output.
  absl::Span<const std::byte> output(absl::string_view name) const;

  // Runs the load stage, which folds and packs weights. Call it before the
  // first run and whenever stable persistent values have changed.
  absl::Status Load();
  // Runs once. On an error the outputs are undefined.
  absl::Status Run();
  // Runs once on bytes of the caller instead of input() and output(). Every
  // input must be given, from its first byte on; missing bytes at its end count
  // as zeros. An output is written as far as there are bytes for it. If all
  // bytes of a tensor are registered with the transfer, the device copies them
  // itself. Addresses may differ between runs, so only the work between the
  // copies is recorded. On an error the outputs are undefined.
  //   INVALID_ARGUMENT  there is no such input or output, or it has fewer bytes
  absl::Status RunOn(absl::Span<const HostInput> inputs,
                     absl::Span<const HostOutput> outputs);
  // Queues a copy of all bytes of a brought input; does nothing when no node
  // reads it. Call it before Start, and after the last run has finished.
  absl::Status Bring(absl::string_view name, absl::Span<const std::byte> from);
  // Queues a copy of all bytes of an output to elsewhere on the device. Call it
  // when a run has finished, before the arena's next run.
  absl::Status Take(absl::string_view name, std::byte* to);
  // Start and Finish are the two halves of Run: the first queues the work, the
  // second waits for it and makes the outputs readable. Between the two, inputs
  // must not be written, and no other executor on the same arena may run.
  absl::Status Start();
  absl::Status Finish();
  // Returns at once whether Finish would not wait for long.
  bool IsDone() { return program_.backend().RunIsDone(); }
  // Runs once, more slowly, and adds each node's time to `profile`: by the
  // device's timer if there is one, else by the host's clock. With a timer the
  // first node begins when the host had it queued, so that the times of runs
  // follow each other. Also adds the bytes that the holder has at each launch.
  absl::Status RunProfiled(Profile* profile, LaunchTimer* timer = nullptr);

  const Program& program() const { return program_; }

 private:
  // A graph input or output whose bytes the host cannot reach.
  struct Staged {
    ValueId value;
    absl::Span<std::byte> host;
  };

  Executor(Program program, const ExecutorMemory& memory)
      : program_(std::move(program)),
        transfer_(&program_.backend().transfer()),
        holder_(memory.holder),
        allocator_(memory.allocator) {}
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
  // Returns whether the device may use these addresses directly.
  bool Reaches(absl::Span<const std::byte> host) const {
    return transfer_->host_visible() || transfer_->IsRegistered(host);
  }
  absl::Status RunTimed(Profile* profile, LaunchTimer* timer);
  // Returns the bytes that the holder has from the allocator now.
  uint64_t HeldBytes() const { return allocator_->HolderBytes(holder_); }
  std::byte* address(ValueId id) const {
    return addresses_[static_cast<size_t>(id.index)];
  }
  // Returns the bytes at which the host reads or writes an input or output.
  absl::Span<std::byte> host_bytes(const std::vector<Staged>& staged,
                                   const Value& value) const;

  Program program_;
  Transfer* transfer_;
  const std::string holder_;
  CachingAllocator* const allocator_;
  std::vector<std::shared_ptr<const Allocation>> residents_;
  std::vector<std::byte*> addresses_;  // by value; null when unused
  std::vector<Kernel*> steps_;
  // Both are empty if the host reaches the device's memory.
  std::vector<Staged> staged_inputs_;
  std::vector<Staged> staged_outputs_;
  std::unique_ptr<StagingBuffer> staging_;
  // Recordings of a run with its copies, and of the work between the copies.
  // Null if the device has no recordings.
  std::unique_ptr<Recording> recording_;
  std::unique_ptr<Recording> kernels_recording_;
};

}  // namespace gpupool::engine
