// The tensors that the stages of one request pass on, by name, in memory of the
// device. Planning uses the same class without a device, so that planned bytes
// are the bytes of a run.
//
// Belongs to one compute thread. Frees its memory when it is destroyed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/memory/caching_allocator.h"

namespace gpupool::engine {

class StageStore {
 public:
  // Only counts bytes.
  StageStore() = default;
  // Allocates for this holder. Both must outlive the store.
  StageStore(CachingAllocator* allocator, const std::string* holder)
      : allocator_(allocator), holder_(holder) {}
  StageStore(StageStore&&) = default;

  // Returns a store that counts on from the bytes of this one.
  StageStore CountOn() const;

  // Makes space for a tensor, in place of an earlier one of that name.
  // RESOURCE_EXHAUSTED from the allocator.
  absl::Status Add(const std::string& name, uint64_t bytes);
  // Returns whether there is a tensor, its address, and its bytes.
  bool Has(absl::string_view name) const { return tensors_.contains(name); }
  std::byte* data(absl::string_view name) const;
  uint64_t size(absl::string_view name) const;
  void Remove(absl::string_view name);
  // Removes every tensor that is not in the list.
  void Keep(const std::vector<std::string>& names);

  // Returns the bytes now and at the most, rounded to the alignment.
  uint64_t bytes() const { return bytes_; }
  uint64_t peak() const { return peak_; }
  // Returns the most bytes since the last call, and counts on from those now.
  uint64_t TakePeak();

 private:
  struct Tensor {
    uint64_t bytes = 0;
    Allocation memory;  // empty when only counting
  };

  CachingAllocator* allocator_ = nullptr;
  const std::string* holder_ = nullptr;
  absl::flat_hash_map<std::string, Tensor> tensors_;
  uint64_t bytes_ = 0;
  uint64_t peak_ = 0;
};

}  // namespace gpupool::engine
