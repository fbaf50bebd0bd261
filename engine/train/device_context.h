// What a run or a loaded model needs of the session that made it. The
// session owns everything and outlives its users.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "engine/memory/caching_allocator.h"
#include "engine/runtime/device_backend.h"
#include "engine/runtime/launch_timer.h"

namespace gpupool::engine {

struct DeviceContext {
  DeviceBackend* backend = nullptr;
  CachingAllocator* allocator = nullptr;
  std::string blob_dir;
  uint64_t limit_bytes = 0;  // of the device; 0: unknown
  // Makes the device's timer when it is first called; null: it has none, and
  // profiles are by the host's clock.
  std::function<LaunchTimer*()> timer = nullptr;
};

// The name under which the allocator counts what a run or a model takes.
// Limits its bytes and forgets it at the end; declare it before what it
// counts, so that it goes last.
class MemoryHolder {
 public:
  MemoryHolder(std::string name, CachingAllocator* allocator)
      : name_(std::move(name)), allocator_(allocator) {}
  // A later attempt of the same job may hold something under the same name.
  ~MemoryHolder() {
    if (allocator_->HolderBytes(name_) == 0) allocator_->ForgetHolder(name_);
  }
  MemoryHolder(const MemoryHolder&) = delete;
  MemoryHolder& operator=(const MemoryHolder&) = delete;

  const std::string& name() const { return name_; }
  // 0: no limit of its own.
  absl::Status SetLimit(uint64_t bytes) {
    return allocator_->SetHolderLimit(name_, bytes);
  }
  uint64_t peak_bytes() const { return allocator_->HolderPeakBytes(name_); }

 private:
  const std::string name_;
  CachingAllocator* const allocator_;
};

}  // namespace gpupool::engine
