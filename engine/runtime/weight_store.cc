#include "engine/runtime/weight_store.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/align.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {

absl::StatusOr<WeightLayout> WeightLayout::Create(
    absl::Span<const Graph* const> graphs) {
  WeightLayout layout;
  for (const Graph* graph : graphs) {
    for (const Value& value : graph->values()) {
      if (value.kind != ValueKind::kPersistent) continue;
      RETURN_IF_ERROR(layout.Add(value));
    }
  }
  return layout;
}

absl::Status WeightLayout::Add(const Value& value) {
  if (const WeightEntry* known = Find(value.name); known != nullptr) {
    if (known->dtype == value.dtype && known->shape == value.shape) {
      return absl::OkStatus();
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "weight \"", value.name, "\" is ", DTypeName(known->dtype),
        known->shape.ToString(), " in one program and ", DTypeName(value.dtype),
        value.shape.ToString(), " in another"));
  }
  WeightEntry entry{value.name, value.dtype, value.shape, value.memory_class,
                    0};
  uint64_t& block =
      entry.in_optimizer_block() ? bytes_.optimizer : bytes_.model;
  entry.offset = block;
  block += AlignUp(entry.bytes());
  by_name_[value.name] = entries_.size();
  entries_.push_back(std::move(entry));
  return absl::OkStatus();
}

const WeightEntry* WeightLayout::Find(absl::string_view name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? nullptr : &entries_[found->second];
}

absl::StatusOr<WeightStore> WeightStore::Create(WeightLayout layout,
                                                const std::string& holder,
                                                CachingAllocator* allocator) {
  WeightStore store;
  store.layout_ = std::move(layout);
  const PersistentBytes& bytes = store.layout_.bytes();
  ASSIGN_OR_RETURN(store.model_,
                   allocator->Allocate(bytes.model, {holder, "weights"}));
  ASSIGN_OR_RETURN(store.optimizer_,
                   allocator->Allocate(bytes.optimizer, {holder, "optimizer"}));
  if (bytes.model > 0) std::memset(store.model_.data(), 0, bytes.model);
  if (bytes.optimizer > 0) {
    std::memset(store.optimizer_.data(), 0, bytes.optimizer);
  }
  return store;
}

absl::Span<std::byte> WeightStore::Find(absl::string_view name) const {
  const WeightEntry* entry = layout_.Find(name);
  return entry == nullptr ? absl::Span<std::byte>() : bytes_of(*entry);
}

absl::Span<std::byte> WeightStore::bytes_of(const WeightEntry& entry) const {
  const Allocation& block = entry.in_optimizer_block() ? optimizer_ : model_;
  return {block.data() + entry.offset, entry.bytes()};
}

absl::StatusOr<std::shared_ptr<const Allocation>> WeightStore::Resident(
    const ResidentItem& item, const std::string& holder,
    CachingAllocator* allocator) const {
  if (!item.key.empty()) {
    const auto known = residents_.find(item.key);
    if (known != residents_.end()) {
      if (auto block = known->second.lock(); block != nullptr) return block;
    }
  }
  ASSIGN_OR_RETURN(Allocation block,
                   allocator->Allocate(item.bytes, {holder, "packed"}));
  auto shared = std::make_shared<const Allocation>(std::move(block));
  if (!item.key.empty()) residents_[item.key] = shared;
  return shared;
}

}  // namespace gpupool::engine
