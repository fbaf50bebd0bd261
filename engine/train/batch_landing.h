// The next batch of a training run on its way to a device that works while the
// host goes on: gathered in pinned memory, copied to a landing beside the work
// on the batch before it, and taken from there, on the device, into the inputs
// of a program. So a step waits neither for the host's rows nor for the bus.
//
//   host      fill n+1    send n+1                  fill n+2 ...
//   beside                copy n+1 to the landing
//   compute   batch n ........................ | take n+1 | batch n+1 ...
//
// Taking waits for the copy, and the next copy for the taking, both on the
// device. There are two pinned buffers in turn: the one to fill is that of the
// batch before the last one, whose run the host has waited for.
//
// Thread-safety: the compute thread's. Transfer and allocator must outlive it;
// work that takes a batch from it must be over before it goes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/memory/caching_allocator.h"
#include "engine/runtime/device_memory.h"
#include "engine/runtime/executor.h"

namespace gpupool::engine {

// Where the tensors of a batch lie in a landing, each aligned.
struct LandingLayout {
  struct Tensor {
    std::string name;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  void Add(const std::string& name, uint64_t bytes);
  std::vector<std::string> names() const;

  std::vector<Tensor> tensors;
  uint64_t bytes = 0;  // of device memory; 0: there is no landing
};

class BatchLanding {
 public:
  // Takes layout.bytes of device memory, labelled "<holder> / next batch", and
  // twice as many of staging. `transfer` has one beside it.
  //   RESOURCE_EXHAUSTED  from either
  static absl::StatusOr<std::unique_ptr<BatchLanding>> Create(
      LandingLayout layout, const std::string& holder,
      CachingAllocator* allocator, Transfer* transfer);
  // Waits for copies that nobody took.
  ~BatchLanding();
  BatchLanding(const BatchLanding&) = delete;
  BatchLanding& operator=(const BatchLanding&) = delete;

  // Host memory for a tensor of the batch that is sent next. Empty when the
  // layout has none of that name.
  absl::Span<std::byte> input(absl::string_view name) const;
  // Queues the copy of the batch with this number, whose tensors were filled.
  // The batch sent before must have been taken, and the run that took the one
  // before that must be over.
  absl::Status Send(uint64_t batch);
  // Whether that batch was sent and not taken.
  bool Holds(uint64_t batch) const { return sent_ == batch; }
  // Queues copies of its tensors into inputs of the executor's, which brings
  // all of them (Executor::Create), before a run of it is queued.
  absl::Status Take(Executor& executor);

 private:
  BatchLanding(LandingLayout layout, Transfer* transfer)
      : layout_(std::move(layout)),
        transfer_(transfer),
        beside_(transfer->beside()) {}

  const LandingLayout layout_;
  Transfer* const transfer_;
  Transfer* const beside_;
  Allocation landing_;
  std::array<std::unique_ptr<StagingBuffer>, 2> staging_;
  size_t next_ = 0;               // of staging_: the one to fill
  std::optional<uint64_t> sent_;  // and not taken
};

}  // namespace gpupool::engine
