// A segment source that fails when a test says so, and notices misuse.
#pragma once

#include <map>
#include <set>

#include "absl/status/statusor.h"
#include "engine/base/check.h"
#include "engine/memory/segment_source.h"

namespace gpupool::engine {

class FaultSegmentSource : public SegmentSource {
 public:
  // Fails the call with this number (the first is 0).
  void FailCall(uint64_t call) { failing_calls_.insert(call); }
  // Fails whenever more than `bytes` would be given out.
  void SetCapacity(uint64_t bytes) { capacity_ = bytes; }

  absl::StatusOr<void*> Allocate(uint64_t bytes) override {
    if (failing_calls_.contains(calls_++) || live_bytes_ + bytes > capacity_) {
      return absl::ResourceExhaustedError("the test's source is empty");
    }
    auto address = host_.Allocate(bytes);
    if (address.ok()) {
      live_[*address] = bytes;
      live_bytes_ += bytes;
    }
    return address;
  }
  void Free(void* address, uint64_t bytes) override {
    GPUPOOL_CHECK(live_.contains(address) && live_[address] == bytes);
    live_.erase(address);
    live_bytes_ -= bytes;
    host_.Free(address, bytes);
  }

  uint64_t calls() const { return calls_; }
  uint64_t live_bytes() const { return live_bytes_; }

 private:
  HostSegmentSource host_;
  std::set<uint64_t> failing_calls_;
  std::map<void*, uint64_t> live_;
  uint64_t live_bytes_ = 0;
  uint64_t capacity_ = uint64_t{1} << 60;
  uint64_t calls_ = 0;
};

}  // namespace gpupool::engine
