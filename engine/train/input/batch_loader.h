// Threads that make the batches of a training before their steps ask for them,
// like the workers of PyTorch's DataLoader. Batches are made in any order and
// taken in theirs. At most `prefetch` of them are made or being made at a time,
// each in memory of its own, which is allocated at the start and used in turn.
//
// Only taken batches count: what was made ahead leaves no trace in the
// training's position.
//
// Thread-safety: Take and the destructor belong to one thread. The functions of
// BatchMaker are called on the loader's threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"

namespace gpupool::engine {

struct BatchLoaderOptions {
  uint32_t workers = 1;   // threads, at least 1
  uint32_t prefetch = 1;  // batches, at least 1
  uint64_t batch_bytes = 0;
  // The numbers of the first batch, and after the last one.
  uint64_t first = 0;
  uint64_t end = 0;
};

// Makes a batch in two parts.
struct BatchMaker {
  // Returns the rows of the next batch. Called once for each batch, in their
  // order, by one thread at a time.
  std::function<std::vector<uint32_t>()> rows;
  // Fills the memory of a batch. Called by several threads at once.
  std::function<absl::Status(uint64_t number, absl::Span<const uint32_t> rows,
                             absl::Span<std::byte> memory)>
      fill;
};

class BatchLoader {
 public:
  // Allocates the memory and starts the threads. RESOURCE_EXHAUSTED when the
  // host has no memory for the batches.
  static absl::StatusOr<std::unique_ptr<BatchLoader>> Start(
      const BatchLoaderOptions& options, BatchMaker maker);
  // Stops the threads. Waits for batches that are being made, at most one for
  // each thread.
  ~BatchLoader();
  BatchLoader(const BatchLoader&) = delete;
  BatchLoader& operator=(const BatchLoader&) = delete;

  // Waits until the batch is made and calls `use` with its memory, which is
  // free for another batch afterwards. Numbers must be those from `first` on,
  // in order. Returns the error with which the batch was made, if there was
  // one; `use` is not called then.
  absl::Status Take(uint64_t number,
                    absl::FunctionRef<void(absl::Span<const std::byte>)> use);

 private:
  // The memory of a batch.
  struct Slot {
    std::unique_ptr<std::byte[]> memory;
    bool made = false;    // and not taken
    absl::Status status;  // when made
  };

  BatchLoader(const BatchLoaderOptions& options, BatchMaker maker)
      : options_(options),
        maker_(std::move(maker)),
        next_(options.first),
        taken_(options.first) {}

  // Makes batches until the loader stops or there are no more.
  void Work();
  bool MayMake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return next_ < options_.end && next_ < taken_ + options_.prefetch;
  }
  bool MustWake() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return stopped_ || next_ >= options_.end || MayMake();
  }
  Slot& SlotOf(uint64_t number) { return slots_[number % slots_.size()]; }

  const BatchLoaderOptions options_;
  const BatchMaker maker_;
  absl::Mutex mutex_;
  bool stopped_ ABSL_GUARDED_BY(mutex_) = false;
  uint64_t next_ ABSL_GUARDED_BY(mutex_);   // the batch to make
  uint64_t taken_ ABSL_GUARDED_BY(mutex_);  // the batch to take
  // The memory of a slot belongs to the thread that makes its batch until it is
  // made, and then to the one that takes it. The rest is guarded by mutex_.
  std::vector<Slot> slots_;
  std::vector<std::thread> threads_;
};

}  // namespace gpupool::engine
