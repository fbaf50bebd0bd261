// The tensors of a weight store as the host sees them: the store's own memory
// where the host can reach it, a copy of it elsewhere.
//
// Belongs to one compute thread. The store must outlive the view.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/runtime/weight_store.h"

namespace gpupool::engine {

class WeightView {
 public:
  // With the store's present contents. RESOURCE_EXHAUSTED when the host has
  // no memory for a copy; the device's fault.
  static absl::StatusOr<WeightView> Read(const WeightStore& store);
  // A copy of the present contents wherever the store is. The tensors' bytes
  // hold as long as the view, also when the store is gone; nothing else does.
  // RESOURCE_EXHAUSTED as Read.
  static absl::StatusOr<WeightView> Copy(const WeightStore& store);
  // Of a store that was just made: zeros, and nothing is copied from the
  // device.
  static absl::StatusOr<WeightView> OfNew(const WeightStore& store);

  const WeightLayout& layout() const { return store_->layout(); }
  // Empty when the store has none of that name.
  absl::Span<std::byte> Find(absl::string_view name) const;
  absl::Span<std::byte> bytes_of(const WeightEntry& entry) const;

  // Makes what was written here the store's contents. Costs nothing where the
  // view is the store's memory.
  absl::Status Commit() const;

 private:
  enum class Make { kZeros, kRead, kCopy };
  struct Block {
    std::byte* data = nullptr;  // the device's own, or that of `copy`
    std::unique_ptr<std::byte[]> copy;
  };
  explicit WeightView(const WeightStore* store) : store_(store) {}
  static absl::StatusOr<WeightView> Open(const WeightStore& store, Make make);
  Block& block(bool optimizer) { return optimizer ? optimizer_ : model_; }

  const WeightStore* store_;
  Block model_;
  Block optimizer_;
};

}  // namespace gpupool::engine
