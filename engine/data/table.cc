#include "engine/data/table.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpupool::engine {

absl::StatusOr<uint64_t> CheckedTableBytes(uint64_t rows, uint64_t row_features,
                                           uint64_t row_labels,
                                           const ReadLimits& limits) {
  uint64_t row_numbers, row_bytes, bytes;
  // Shapes come from files, so every product is checked for overflow.
  if (__builtin_add_overflow(row_features, row_labels, &row_numbers) ||
      __builtin_mul_overflow(row_numbers, sizeof(float), &row_bytes) ||
      __builtin_mul_overflow(rows, row_bytes, &bytes) ||
      bytes > limits.max_table_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat(rows, " rows of ", row_features, " features and ",
                     row_labels, " label numbers exceed the limit of ",
                     limits.max_table_bytes, " bytes for a dataset in memory"));
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
