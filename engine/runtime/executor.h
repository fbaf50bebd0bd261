// Runs one program over and over: one loop over launches whose addresses were
// patched once. A run allocates nothing and branches on no op.
//
// Belongs to one compute thread. The weight store, the arena and the program's
// back end must outlive it; several executors may share store and arena as
// long as they run in turn.
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

  // The bytes of a graph input, to be written before every run: they are
  // undefined after it. Empty when the graph has none of that name.
  absl::Span<std::byte> input(absl::string_view name) const;
  // The bytes of a graph output, valid until the arena's next run. Empty when
  // the graph has none of that name.
  absl::Span<const std::byte> output(absl::string_view name) const;

  // Runs the load stage: folds and packs weights. Needed before the first run
  // and whenever stable persistent values have changed.
  absl::Status Load();
  // One run. On an error the outputs are undefined.
  absl::Status Run();
  // The same, slower: adds each node's time to `profile`.
  absl::Status RunProfiled(Profile* profile);

  const Program& program() const { return program_; }

 private:
  explicit Executor(Program program) : program_(std::move(program)) {}
  absl::Status Bind(const WeightStore& weights, absl::Span<std::byte> arena);
  void FillConstants();
  std::byte* address(ValueId id) const {
    return addresses_[static_cast<size_t>(id.index)];
  }

  Program program_;
  std::vector<std::shared_ptr<const Allocation>> residents_;
  std::vector<std::byte*> addresses_;  // by value; null when unused
  std::vector<Kernel*> steps_;
};

}  // namespace gpupool::engine
