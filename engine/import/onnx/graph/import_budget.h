// The limits of one import: element operations that it computes, parts of the
// file that it visits (with loops unrolled and functions expanded), and bytes
// that it holds. So no file can make an import compute for more than a second
// or two (tests/fuzz prints the times).
//
// A plain value. Thread-safety: one thread at a time.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace gpupool::engine::onnx_import {

// Most element operations of an import, without and with bound inputs.
inline constexpr int64_t kImportBudget = int64_t{1} << 26;
inline constexpr int64_t kBoundImportBudget = int64_t{1} << 28;
// Most names, inputs and attributes visited. A node or a subgraph counts as
// kPartsOfNode in addition to its own.
inline constexpr int64_t kMaxVisitedParts = int64_t{8} << 20;
inline constexpr int64_t kPartsOfNode = 8;
// Most bytes of constants, nodes, lists and copies, in addition to those of the
// file's own tensors.
inline constexpr uint64_t kMaxHeldBytes = uint64_t{512} << 20;
// Bytes held per byte of the file: a byte becomes at most one number of eight
// bytes.
inline constexpr uint64_t kHeldPerFileByte = 8;

class ImportBudget {
 public:
  explicit ImportBudget(int64_t operations, uint64_t file_bytes = 0)
      : operations_(operations),
        most_bytes_(kMaxHeldBytes + kHeldPerFileByte * file_bytes) {}

  // Take from the budget. INVALID_ARGUMENT names the limit when too little is
  // left. Then only Hold has taken anything.
  absl::Status Compute(int64_t operations);
  absl::Status Visit(int64_t parts);
  absl::Status Hold(uint64_t bytes);
  // Does the same for callers that cannot fail. The next CheckHeld fails if the
  // budget is overdrawn.
  void HoldUnchecked(uint64_t bytes);
  absl::Status CheckHeld() const { return CheckRoom(0); }
  // Returns INVALID_ARGUMENT when `bytes` more could not be held.
  absl::Status CheckRoom(uint64_t bytes) const;

  int64_t operations_left() const { return operations_; }
  int64_t visited_parts() const { return visited_parts_; }
  uint64_t held_bytes() const { return held_bytes_; }

 private:
  int64_t operations_;
  int64_t visited_parts_ = 0;
  uint64_t most_bytes_;
  uint64_t held_bytes_ = 0;
};

}  // namespace gpupool::engine::onnx_import
