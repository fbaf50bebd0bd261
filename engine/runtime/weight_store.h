// The named persistent values of one model, shared by its train, eval and
// infer programs: one packed block for weights and state, one for the
// optimizer's.
//
// WeightLayout is a plain value that needs no memory, so the meta device
// plans with it. WeightStore belongs to one compute thread; its memory goes
// back to the allocator with it. The memory is the device's: the host reads
// and writes it through WeightView, Write and Copy.
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
  uint64_t offset = 0;  // in its block

  uint64_t bytes() const { return shape.bytes(dtype); }
  bool in_optimizer_block() const {
    return memory_class == MemoryClass::kOptimizer;
  }
};

class WeightLayout {
 public:
  // The persistent values of all graphs, those of the first graph first, in
  // their order. InvalidArgument when two graphs give one name to different
  // types.
  static absl::StatusOr<WeightLayout> Create(
      absl::Span<const Graph* const> graphs);

  absl::Span<const WeightEntry> entries() const { return entries_; }
  // nullptr when absent.
  const WeightEntry* Find(absl::string_view name) const;
  // Both multiples of the alignment.
  const PersistentBytes& bytes() const { return bytes_; }

 private:
  absl::Status Add(const Value& value);

  std::vector<WeightEntry> entries_;
  absl::flat_hash_map<std::string, size_t> by_name_;
  PersistentBytes bytes_;
};

class WeightStore {
 public:
  // Zero-filled. Labelled "<holder> / weights" and "<holder> / optimizer".
  // `transfer` reaches the allocator's memory and must outlive the store.
  // ResourceExhausted from the allocator.
  static absl::StatusOr<WeightStore> Create(WeightLayout layout,
                                            const std::string& holder,
                                            CachingAllocator* allocator,
                                            Transfer& transfer = HostMemory());

  const WeightLayout& layout() const { return layout_; }
  Transfer& transfer() const { return *transfer_; }
  // Addresses of the device.
  std::byte* address_of(const WeightEntry& entry) const {
    return block(entry.in_optimizer_block()).data() + entry.offset;
  }
  absl::Span<std::byte> block(bool optimizer) const;

  // Sets a value. InvalidArgument when the store has none of that name with
  // so many bytes.
  absl::Status Write(absl::string_view name,
                     absl::Span<const std::byte> bytes) const;
  // Copies one value to another of the same size.
  absl::Status Copy(const WeightEntry& from, const WeightEntry& to) const;

  // Memory for what programs derive from these weights, labelled
  // "<holder> / packed": the same block for the same key as long as somebody
  // holds it, a block of its own for an empty key.
  absl::StatusOr<std::shared_ptr<const Allocation>> Resident(
      const ResidentItem& item, const std::string& holder,
      CachingAllocator* allocator) const;
  // What Resident would take from the allocator for these items now.
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
