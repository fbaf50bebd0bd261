#include "engine/runtime/weight_view.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {

absl::StatusOr<WeightView> WeightView::Open(const WeightStore& store) {
  WeightView view(&store);
  for (const bool optimizer : {false, true}) {
    const absl::Span<std::byte> memory = store.block(optimizer);
    Block& block = view.block(optimizer);
    if (store.transfer().host_visible() || memory.empty()) {
      block.data = memory.data();
      continue;
    }
    // Zeros, from pages that cost nothing until they are written.
    block.copy.reset(new (std::nothrow) std::byte[memory.size()]());
    if (block.copy == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the host has no ", memory.size(), " bytes for a copy of weights"));
    }
    block.data = block.copy.get();
  }
  return view;
}

absl::StatusOr<WeightView> WeightView::OfNew(const WeightStore& store) {
  return Open(store);
}

absl::StatusOr<WeightView> WeightView::Read(const WeightStore& store) {
  ASSIGN_OR_RETURN(WeightView view, Open(store));
  for (const bool optimizer : {false, true}) {
    const Block& block = view.block(optimizer);
    if (block.copy == nullptr) continue;
    const absl::Span<std::byte> memory = store.block(optimizer);
    RETURN_IF_ERROR(store.transfer().CopyFromDevice({block.data, memory.size()},
                                                    memory.data()));
  }
  RETURN_IF_ERROR(store.transfer().Synchronize());
  return view;
}

absl::Span<std::byte> WeightView::Find(absl::string_view name) const {
  const WeightEntry* entry = layout().Find(name);
  return entry == nullptr ? absl::Span<std::byte>() : bytes_of(*entry);
}

absl::Span<std::byte> WeightView::bytes_of(const WeightEntry& entry) const {
  const Block& block = entry.in_optimizer_block() ? optimizer_ : model_;
  return {block.data + entry.offset, entry.bytes()};
}

absl::Status WeightView::Commit() const {
  for (const bool optimizer : {false, true}) {
    const Block& block = optimizer ? optimizer_ : model_;
    if (block.copy == nullptr) continue;
    const absl::Span<std::byte> memory = store_->block(optimizer);
    RETURN_IF_ERROR(store_->transfer().CopyToDevice(
        memory.data(), {block.data, memory.size()}));
  }
  return store_->transfer().Synchronize();
}

}  // namespace gpupool::engine
