// The tensors of a weight store for the host: the store's own memory if the
// host can reach it, else a copy.
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
  // Returns a view of the store's current contents. RESOURCE_EXHAUSTED when the
  // host has no memory for a copy; else an error of the device.
  static absl::StatusOr<WeightView> Read(const WeightStore& store);
  // Returns a view of a copy of the current contents on any device. The
  // tensors' bytes live as long as the view, even without the store; the rest
  // of the view needs the store. RESOURCE_EXHAUSTED as Read.
  static absl::StatusOr<WeightView> Copy(const WeightStore& store);
  // Returns a view of a new store, which is all zeros; nothing is copied from
  // the device.
  static absl::StatusOr<WeightView> OfNew(const WeightStore& store);

  const WeightLayout& layout() const { return store_->layout(); }
  // Returns the bytes of a tensor; empty when the store has no such one.
  absl::Span<std::byte> Find(absl::string_view name) const;
  absl::Span<std::byte> bytes_of(const WeightEntry& entry) const;

  // Writes the view's bytes to the store. Costs nothing if the view is the
  // store's memory.
  absl::Status Commit() const;

 private:
  enum class Make { kZeros, kRead, kCopy };
  struct Block {
    std::byte* data = nullptr;  // the device's memory, or that of `copy`
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
