// The named persistent values of one model, shared by its train, eval and infer
// programs: one packed block for weights and state, and one for the optimizer.
//
// WeightLayout is a plain value that needs no memory, so the meta device plans
// with it. WeightStore belongs to one compute thread and returns its memory to
// the allocator when it is destroyed. The memory is the device's: the host
// accesses it through WeightView, Write and Copy.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/graph/graph.h"
#include "engine/memory/caching_allocator.h"
#include "engine/plan/report.h"
#include "engine/runtime/device_memory.h"

namespace gpupool::engine {

struct WeightEntry {
  std::string name;
  DType dtype = DType::kFloat32;
  Shape shape;
  MemoryClass memory_class = MemoryClass::kWeight;
  uint64_t offset = 0;  // bytes from the start of its block

  uint64_t bytes() const { return shape.bytes(dtype); }
  bool in_optimizer_block() const {
    return memory_class == MemoryClass::kOptimizer;
  }
};

class WeightLayout {
 public:
  // Lays out the persistent values of all graphs, in the order of the graphs
  // and of their values. INVALID_ARGUMENT when two graphs give one name to
  // different types.
  static absl::StatusOr<WeightLayout> Create(
      absl::Span<const Graph* const> graphs);

  absl::Span<const WeightEntry> entries() const { return entries_; }
  // Returns null when there is no such entry.
  const WeightEntry* Find(absl::string_view name) const;
  // Returns the bytes of both blocks, multiples of the alignment.
  const PersistentBytes& bytes() const { return bytes_; }

 private:
  absl::Status Add(const Value& value);

  std::vector<WeightEntry> entries_;
  absl::flat_hash_map<std::string, size_t> by_name_;
  PersistentBytes bytes_;
};

class WeightStore {
 public:
  // Allocates a store filled with zeros, labelled "<holder> / weights" and
  // "<holder> / optimizer". `transfer` reaches the allocator's memory and must
  // outlive the store. RESOURCE_EXHAUSTED from the allocator.
  static absl::StatusOr<WeightStore> Create(WeightLayout layout,
                                            const std::string& holder,
                                            CachingAllocator* allocator,
                                            Transfer& transfer = HostMemory());

  const WeightLayout& layout() const { return layout_; }
  Transfer& transfer() const { return *transfer_; }
  // Returns an address of the device.
  std::byte* address_of(const WeightEntry& entry) const {
    return block(entry.in_optimizer_block()).data() + entry.offset;
  }
  absl::Span<std::byte> block(bool optimizer) const;

  // Sets a value. INVALID_ARGUMENT when the store has no value of that name
  // with that many bytes.
  absl::Status Write(absl::string_view name,
                     absl::Span<const std::byte> bytes) const;
  // Copies one value to another of the same size.
  absl::Status Copy(const WeightEntry& from, const WeightEntry& to) const;

  // Returns memory for bytes that programs derive from these weights, labelled
  // "<holder> / packed". The same key gives the same block as long as somebody
  // holds it; an empty key gives a block of its own.
  absl::StatusOr<std::shared_ptr<const Allocation>> Resident(
      const ResidentItem& item, const std::string& holder,
      CachingAllocator* allocator) const;
  // Returns the bytes that Resident would allocate for these items now.
  uint64_t MissingBytes(absl::Span<const ResidentItem> items) const;

 private:
  WeightLayout layout_;
  Transfer* transfer_ = nullptr;
  mutable absl::flat_hash_map<std::string, std::weak_ptr<const Allocation>>
      residents_;
  Allocation model_;
  Allocation optimizer_;
};

}  // namespace gpupool::engine
