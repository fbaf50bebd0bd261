// Collects the bytes of a column: in memory, or in a file without a name, which
// goes when nothing maps it any more, also when the process is killed. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/column.h"

namespace gpupool::engine {

class ColumnBuffer {
 public:
  ColumnBuffer() = default;
  ~ColumnBuffer();
  ColumnBuffer(const ColumnBuffer&) = delete;
  ColumnBuffer& operator=(const ColumnBuffer&) = delete;

  // Takes the memory for so many bytes at once. RESOURCE_EXHAUSTED when the
  // host has not that many.
  absl::Status Reserve(uint64_t bytes);
  // Moves what was collected, and what follows, to a file in `folder`.
  // RESOURCE_EXHAUSTED when the disk is full; INTERNAL for its other errors.
  absl::Status MoveToDisk(const std::string& folder);
  // Adds bytes. Errors as MoveToDisk.
  absl::Status Append(absl::Span<const char> bytes);
  // Gives the bytes to the column. Errors as MoveToDisk. Call it once, at the
  // end.
  absl::Status MoveTo(Column& column);

 private:
  absl::Status Flush();

  std::vector<char> bytes_;  // with a file: those that are not yet in it
  int descriptor_ = -1;
  std::string folder_;
};

// Returns a column of class numbers with its facts. It is kept in a file of
// `folder`, or in memory if that is empty. Errors as Reserve and MoveToDisk.
absl::StatusOr<Column> ColumnOfClasses(absl::Span<const int64_t> classes,
                                       const std::string& folder);

}  // namespace gpupool::engine
