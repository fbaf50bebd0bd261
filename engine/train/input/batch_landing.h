// The transfer of a training run's next batch to a device that works in the
// background. The batch is gathered in pinned memory, copied to a landing while
// the device works on the batch before it, and taken from there, on the device,
// into the inputs of a program. A step therefore waits neither for the host's
// rows nor for the bus.
//
//   host      fill n+1    send n+1                  fill n+2 ...
//   beside                copy n+1 to the landing
//   compute   batch n ........................ | take n+1 | batch n+1 ...
//
// On the device, taking waits for the copy, and the next copy waits for the
// taking. Two pinned buffers are used in turn: the one to fill belonged to the
// batch before the last one, whose run the host has waited for.
//
// Thread-safety: belongs to the compute thread. Transfer and allocator must
// outlive it. Work that takes a batch from it must end before it is destroyed.
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

// The places of a batch's tensors in a landing, each aligned.
struct LandingLayout {
  struct Tensor {
    std::string name;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };

  void Add(const std::string& name, uint64_t bytes);
  std::vector<std::string> names() const;

  std::vector<Tensor> tensors;
  uint64_t bytes = 0;  // bytes of device memory; 0: there is no landing
};

class BatchLanding {
 public:
  // Allocates layout.bytes of device memory, labelled "<holder> / next batch",
  // and twice as many bytes of staging. `transfer` must have one beside it.
  //   RESOURCE_EXHAUSTED  from either
  static absl::StatusOr<std::unique_ptr<BatchLanding>> Create(
      LandingLayout layout, const std::string& holder,
      CachingAllocator* allocator, Transfer* transfer);
  // Waits for copies that were not taken.
  ~BatchLanding();
  BatchLanding(const BatchLanding&) = delete;
  BatchLanding& operator=(const BatchLanding&) = delete;

  // Returns the host memory of a tensor of the batch that is sent next. Empty
  // when the layout has no such tensor.
  absl::Span<std::byte> input(absl::string_view name) const;
  // Queues the copy of the batch with this number, whose tensors were filled.
  // The batch sent before must have been taken, and the run that took the one
  // before that must have ended.
  absl::Status Send(uint64_t batch);
  // Returns whether that batch was sent and not taken.
  bool Holds(uint64_t batch) const { return sent_ == batch; }
  // Queues copies of the batch's tensors into inputs of the executor, before a
  // run of it is queued. The executor must have been made with all of them as
  // brought inputs (Executor::Create).
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
  size_t next_ = 0;               // the element of staging_ to fill
  std::optional<uint64_t> sent_;  // the batch that was sent and not taken
};

}  // namespace gpupool::engine
