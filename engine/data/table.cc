#include "engine/data/table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {

uint64_t Table::host_bytes() const {
  uint64_t bytes = 0;
  for (const Column& column : inputs) bytes += column.host_bytes();
  for (const Column& column : targets) {
    // The tokens of a text are features and labels at once.
    const bool shared =
        column.memory != nullptr && column.memory == features().memory;
    if (!shared) bytes += column.host_bytes();
  }
  return bytes;
}

absl::Status Table::CheckWhole() const {
  for (const Column& column : inputs) RETURN_IF_ERROR(column.CheckWhole());
  for (const Column& column : targets) RETURN_IF_ERROR(column.CheckWhole());
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> CheckedTableBytes(uint64_t rows, uint64_t row_bytes,
                                           const ReadLimits& limits) {
  uint64_t bytes;
  // Shapes come from files, so the product is checked for overflow.
  if (__builtin_mul_overflow(rows, row_bytes, &bytes) ||
      bytes > limits.max_table_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        rows, " rows of ", row_bytes, " bytes exceed the limit of ",
        limits.max_table_bytes,
        " bytes for an unpacked dataset; upload it as NPY files or an NPZ "
        "archive that are not compressed"));
  }
  return bytes;
}

absl::StatusOr<uint64_t> CheckedElementCount(
    const std::vector<int64_t>& dimensions) {
  constexpr uint64_t kMost = uint64_t{1} << 40;
  uint64_t count = 1;
  for (int64_t dimension : dimensions) {
    if (dimension < 1 ||
        __builtin_mul_overflow(count, static_cast<uint64_t>(dimension),
                               &count) ||
        count > kMost) {
      return absl::InvalidArgumentError(
          absl::StrCat("shape [", absl::StrJoin(dimensions, ","),
                       "] is not usable: every dimension must be at least 1 "
                       "and the product at most 2^40"));
    }
  }
  return count;
}

}  // namespace gpupool::engine
