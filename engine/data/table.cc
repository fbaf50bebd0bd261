#include "engine/data/table.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace gpupool::engine {

void DeriveClasses(Table& table) {
  table.classes.clear();
  table.class_count = 0;
  std::vector<int32_t> classes;
  classes.reserve(table.labels.size());
  int32_t largest = -1;
  for (float label : table.labels) {
    if (!(label >= 0 && label < kMaxClasses && label == std::floor(label))) {
      return;
    }
    classes.push_back(static_cast<int32_t>(label));
    largest = std::max(largest, classes.back());
  }
  table.classes = std::move(classes);
  table.class_count = static_cast<uint32_t>(largest + 1);
}

absl::StatusOr<uint64_t> CheckedTableBytes(uint64_t rows, uint64_t row_features,
                                           const ReadLimits& limits) {
  const uint64_t label_bytes = sizeof(float) + sizeof(int32_t);
  uint64_t row_bytes, bytes;
  if (__builtin_mul_overflow(row_features, sizeof(float), &row_bytes) ||
      __builtin_add_overflow(row_bytes, label_bytes, &row_bytes) ||
      __builtin_mul_overflow(rows, row_bytes, &bytes) ||
      bytes > limits.max_table_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(
        rows, " rows of ", row_features, " features exceed the limit of ",
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
