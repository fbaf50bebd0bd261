// A dataset in memory: what every reader makes and the sampler draws from.
// A value; read-only use from several threads is safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace gpupool::engine {

struct Table {
  uint64_t rows = 0;
  std::vector<int64_t> feature_shape;  // of one row, as stored; each >= 1
  uint64_t row_features = 0;           // product of feature_shape
  std::vector<float> features;         // [rows, row_features]; all finite
  std::vector<float> labels;           // [rows]; all finite
  // Labels as whole numbers; empty unless every label is one, >= 0 and below
  // kMaxClasses.
  std::vector<int32_t> classes;
  // Largest class + 1; 0 when `classes` is empty.
  uint32_t class_count = 0;
};

// More classes than this are taken for measurements, not for classes.
inline constexpr double kMaxClasses = 1 << 24;

// Bounds of what a reader may take.
struct ReadLimits {
  uint64_t max_table_bytes = uint64_t{16} << 30;
};

// Sets `classes` and `class_count` from `labels`.
void DeriveClasses(Table& table);

// Bytes that `rows` rows of `row_features` features take in a Table.
// ResourceExhausted above the limit, overflow included.
absl::StatusOr<uint64_t> CheckedTableBytes(uint64_t rows, uint64_t row_features,
                                           const ReadLimits& limits);

// Product of the dimensions; InvalidArgument when one is below 1 or the
// product exceeds 2^40.
absl::StatusOr<uint64_t> CheckedElementCount(
    const std::vector<int64_t>& dimensions);

}  // namespace gpupool::engine
