#include "engine/runtime/weight_store.h"

#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "engine/base/align.h"
#include "engine/base/check.h"
#include "engine/base/status_macros.h"
#include "engine/plan/memory_plan.h"

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

// Appends a value to its block, unless an earlier graph has it.
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
  if (block > kMaxPlannedBytes) {
    return absl::InvalidArgumentError(absl::StrCat(
        "weight \"", value.name, "\" ", value.shape.ToString(), " needs ",
        entry.bytes(), " bytes; with it the ",
        entry.in_optimizer_block() ? "optimizer's state takes" : "weights take",
        " more than ", kMaxPlannedBytes, " bytes, which no device has"));
  }
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
                                                CachingAllocator* allocator,
                                                Transfer& transfer) {
  WeightStore store;
  store.layout_ = std::move(layout);
  store.transfer_ = &transfer;
  const PersistentBytes& bytes = store.layout_.bytes();
  ASSIGN_OR_RETURN(store.model_,
                   allocator->Allocate(bytes.model, {holder, "weights"}));
  ASSIGN_OR_RETURN(store.optimizer_,
                   allocator->Allocate(bytes.optimizer, {holder, "optimizer"}));
  // WeightView::OfNew takes these zeros for granted.
  for (const bool optimizer : {false, true}) {
    const absl::Span<std::byte> block = store.block(optimizer);
    RETURN_IF_ERROR(transfer.Clear(block.data(), block.size()));
  }
  RETURN_IF_ERROR(transfer.Synchronize());
  return store;
}

absl::Span<std::byte> WeightStore::block(bool optimizer) const {
  const Allocation& block = optimizer ? optimizer_ : model_;
  return {block.data(),
          optimizer ? layout_.bytes().optimizer : layout_.bytes().model};
}

absl::Status WeightStore::Write(absl::string_view name,
                                absl::Span<const std::byte> bytes) const {
  const WeightEntry* entry = layout_.Find(name);
  if (entry == nullptr || entry->bytes() != bytes.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the weight store has no \"", name, "\" of ", bytes.size(), " bytes"));
  }
  RETURN_IF_ERROR(transfer_->CopyToDevice(address_of(*entry), bytes));
  // The caller may reuse `bytes` after the return.
  return transfer_->Synchronize();
}

absl::Status WeightStore::Copy(const WeightEntry& from,
                               const WeightEntry& to) const {
  GPUPOOL_CHECK(from.bytes() == to.bytes());
  return transfer_->CopyOnDevice(address_of(to), address_of(from),
                                 from.bytes());
}

absl::StatusOr<std::shared_ptr<const Allocation>> WeightStore::Resident(
    const ResidentItem& item, const std::string& holder,
    CachingAllocator* allocator) const {
  if (!item.key.empty()) {
    const auto known = residents_.find(item.key);
    if (known != residents_.end()) {
      // The key names weights and a form. Programs with the same key share the
      // block.
      if (auto block = known->second.lock(); block != nullptr) return block;
    }
  }
  // Keys of blocks that nobody holds any more are removed here.
  absl::erase_if(residents_,
                 [](const auto& known) { return known.second.expired(); });
  ASSIGN_OR_RETURN(Allocation block,
                   allocator->Allocate(item.bytes, {holder, "packed"}));
  auto shared = std::make_shared<const Allocation>(std::move(block));
  if (!item.key.empty()) residents_[item.key] = shared;
  return shared;
}

uint64_t WeightStore::MissingBytes(absl::Span<const ResidentItem> items) const {
  absl::flat_hash_set<absl::string_view> counted;
  uint64_t bytes = 0;
  for (const ResidentItem& item : items) {
    if (!item.key.empty()) {
      const auto known = residents_.find(item.key);
      if (known != residents_.end() && !known->second.expired()) continue;
      // Two items with one key will share one block.
      if (!counted.insert(item.key).second) continue;
    }
    bytes += AlignUp(item.bytes);
  }
  return bytes;
}

}  // namespace gpupool::engine
