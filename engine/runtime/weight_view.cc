#include "engine/runtime/weight_view.h"

#include <new>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {

absl::StatusOr<WeightView> WeightView::Open(const WeightStore& store,
                                            Make make) {
  WeightView view(&store);
  Transfer& transfer = store.transfer();
  for (const bool optimizer : {false, true}) {
    const absl::Span<std::byte> memory = store.block(optimizer);
    Block& block = view.block(optimizer);
    // kCopy copies host memory, too, because the run goes on and changes it.
    const bool in_place = transfer.host_visible() && make != Make::kCopy;
    if (in_place || memory.empty()) {
      block.data = memory.data();
      continue;
    }
    // A lack of memory must end the request, not the process.
    block.copy.reset(make == Make::kZeros
                         ? new (std::nothrow) std::byte[memory.size()]()
                         : new (std::nothrow) std::byte[memory.size()]);
    if (block.copy == nullptr) {
      return absl::ResourceExhaustedError(absl::StrCat(
          "the host has no ", memory.size(), " bytes for a copy of weights"));
    }
    block.data = block.copy.get();
    if (make == Make::kZeros) continue;
    RETURN_IF_ERROR(
        transfer.CopyFromDevice({block.data, memory.size()}, memory.data()));
  }
  if (make != Make::kZeros) RETURN_IF_ERROR(transfer.Synchronize());
  return view;
}

absl::StatusOr<WeightView> WeightView::OfNew(const WeightStore& store) {
  return Open(store, Make::kZeros);
}

absl::StatusOr<WeightView> WeightView::Read(const WeightStore& store) {
  return Open(store, Make::kRead);
}

absl::StatusOr<WeightView> WeightView::Copy(const WeightStore& store) {
  return Open(store, Make::kCopy);
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
    // The view is the store's memory, or the block is empty.
    if (block.copy == nullptr) continue;
    const absl::Span<std::byte> memory = store_->block(optimizer);
    RETURN_IF_ERROR(store_->transfer().CopyToDevice(
        memory.data(), {block.data, memory.size()}));
  }
  return store_->transfer().Synchronize();
}

}  // namespace gpupool::engine
