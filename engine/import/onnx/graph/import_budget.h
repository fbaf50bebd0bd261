// What one import may take in all: element operations computed at once, parts
// of the file looked at (loops unrolled and functions expanded), and bytes
// held. Files say how much work they are; whatever they say, an import ends
// within a second or two of computing (tests/fuzz prints the times).
//
// Plain value; not thread-safe.
#pragma once

#include <cstdint>

#include "absl/status/status.h"

namespace gpupool::engine::onnx_import {

// Element operations at import, and where inputs are bound.
inline constexpr int64_t kImportBudget = int64_t{1} << 26;
inline constexpr int64_t kBoundImportBudget = int64_t{1} << 28;
// Names, inputs, attributes; kPartsOfNode for a node or a subgraph beside
// those that it has.
inline constexpr int64_t kMaxVisitedParts = int64_t{8} << 20;
inline constexpr int64_t kPartsOfNode = 8;
// Constants, nodes, lists and copies, beside what the file's own tensors are.
inline constexpr uint64_t kMaxHeldBytes = uint64_t{512} << 20;
// A byte of the file is a number of eight bytes at most.
inline constexpr uint64_t kHeldPerFileByte = 8;

class ImportBudget {
 public:
  explicit ImportBudget(int64_t operations, uint64_t file_bytes = 0)
      : operations_(operations),
        most_bytes_(kMaxHeldBytes + kHeldPerFileByte * file_bytes) {}

  // Each takes from its budget, whose limit the InvalidArgument names when too
  // little is left; then nothing is taken but by Hold.
  absl::Status Compute(int64_t operations);
  absl::Status Visit(int64_t parts);
  absl::Status Hold(uint64_t bytes);
  // For callers that cannot fail: an overdraft shows in the next CheckHeld.
  void HoldUnchecked(uint64_t bytes);
  absl::Status CheckHeld() const { return CheckRoom(0); }
  // Whether so many more bytes could be held.
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
