// The parts of a session that a run or a loaded model uses. The session owns
// everything and outlives its users.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "engine/data/table.h"
#include "engine/memory/caching_allocator.h"
#include "engine/runtime/device_backend.h"
#include "engine/runtime/launch_timer.h"

namespace gpupool::engine {

struct DeviceContext {
  DeviceBackend* backend = nullptr;
  CachingAllocator* allocator = nullptr;
  std::string blob_dir;
  uint64_t limit_bytes = 0;  // the device's; 0: unknown
  // Makes the device's timer when it is first called. Null: the device has
  // none, and profiles use the host's clock.
  std::function<LaunchTimer*()> timer = nullptr;
  ReadLimits read_limits = {};  // of datasets
};

// The name under which the allocator counts the memory of a run or a model. It
// limits the bytes and forgets the name at the end. Declare it before the
// members that hold memory, so that it is destroyed after them.
class MemoryHolder {
 public:
  MemoryHolder(std::string name, CachingAllocator* allocator)
      : name_(std::move(name)), allocator_(allocator) {}
  // Forgets the name unless a later attempt of the same job holds memory under
  // it.
  ~MemoryHolder() {
    if (allocator_->HolderBytes(name_) == 0) allocator_->ForgetHolder(name_);
  }
  MemoryHolder(const MemoryHolder&) = delete;
  MemoryHolder& operator=(const MemoryHolder&) = delete;

  const std::string& name() const { return name_; }
  // Sets the limit; 0 means no limit of its own.
  absl::Status SetLimit(uint64_t bytes) {
    return allocator_->SetHolderLimit(name_, bytes);
  }
  uint64_t peak_bytes() const { return allocator_->HolderPeakBytes(name_); }

 private:
  const std::string name_;
  CachingAllocator* const allocator_;
};

}  // namespace gpupool::engine
