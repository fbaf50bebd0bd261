// A dataset in memory: what every reader makes and the sampler draws from.
// A value; read-only use from several threads is safe.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/label_facts.h"

namespace gpupool::engine {

struct Table {
  uint64_t rows = 0;
  std::vector<int64_t> feature_shape;  // of one row, as stored; each >= 1
  uint64_t row_features = 0;           // product of feature_shape
  std::vector<float> features;         // [rows, row_features]; all finite
  uint64_t row_labels = 1;             // numbers of one row's label
  std::vector<float> labels;           // [rows, row_labels]; all finite
  LabelFacts label_facts;              // of `labels`
};

// Bounds of what a reader may take.
struct ReadLimits {
  uint64_t max_table_bytes = uint64_t{16} << 30;
};

// Bytes that `rows` rows of `row_features` features and `row_labels` numbers of
// their labels take in a Table. ResourceExhausted above the limit, overflow
// included.
absl::StatusOr<uint64_t> CheckedTableBytes(uint64_t rows, uint64_t row_features,
                                           uint64_t row_labels,
                                           const ReadLimits& limits);

// Product of the dimensions; InvalidArgument when one is below 1 or the
// product exceeds 2^40.
absl::StatusOr<uint64_t> CheckedElementCount(
    const std::vector<int64_t>& dimensions);

}  // namespace gpupool::engine
