#include "engine/import/onnx/graph/import_budget.h"

#include <limits>

#include "absl/strings/str_cat.h"

namespace gpupool::engine::onnx_import {

absl::Status ImportBudget::Compute(int64_t operations) {
  if (operations <= operations_) {
    operations_ -= operations;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "too much would have to be computed while the model is imported: ",
      operations, " element operations, but ", operations_,
      " are left; make constants smaller, or store them as weights"));
}

absl::Status ImportBudget::Visit(int64_t parts) {
  // Subtracts on the other side, so that nothing overflows.
  if (parts <= kMaxVisitedParts - visited_parts_) {
    visited_parts_ += parts;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "with loops unrolled and functions expanded the model has "
      "more than ",
      kMaxVisitedParts, " parts; make loops shorter, or calls fewer"));
}

absl::Status ImportBudget::Hold(uint64_t bytes) {
  HoldUnchecked(bytes);
  return CheckHeld();
}

void ImportBudget::HoldUnchecked(uint64_t bytes) {
  if (__builtin_add_overflow(held_bytes_, bytes, &held_bytes_)) {
    // Saturates, so that later checks fail, too.
    held_bytes_ = std::numeric_limits<uint64_t>::max();
  }
}

absl::Status ImportBudget::CheckRoom(uint64_t bytes) const {
  uint64_t total = 0;
  if (!__builtin_add_overflow(held_bytes_, bytes, &total) &&
      total <= most_bytes_) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the constants and nodes of the imported model would take more than the ",
      most_bytes_,
      " bytes that an import of this file may hold; store large "
      "constants as weights, make loops shorter"));
}

}  // namespace gpupool::engine::onnx_import
