// A dataset in memory: every reader makes one, and the sampler draws from it. A
// value; several threads may read it.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/label_facts.h"

namespace gpupool::engine {

struct Table {
  uint64_t rows = 0;
  // The shape of one row, as stored; each dimension >= 1.
  std::vector<int64_t> feature_shape;
  uint64_t row_features = 0;    // product of feature_shape
  std::vector<float> features;  // [rows, row_features]; all finite
  uint64_t row_labels = 1;      // count of numbers in one row's label
  std::vector<float> labels;    // [rows, row_labels]; all finite
  LabelFacts label_facts;       // facts about `labels`
};

// The bounds of a reader's result.
struct ReadLimits {
  uint64_t max_table_bytes = uint64_t{16} << 30;
};

// Returns the bytes of a Table with `rows` rows of `row_features` features and
// `row_labels` label numbers. RESOURCE_EXHAUSTED above the limit or on
// overflow.
absl::StatusOr<uint64_t> CheckedTableBytes(uint64_t rows, uint64_t row_features,
                                           uint64_t row_labels,
                                           const ReadLimits& limits);

// Returns the product of the dimensions. INVALID_ARGUMENT when one is below 1
// or the product exceeds 2^40.
absl::StatusOr<uint64_t> CheckedElementCount(
    const std::vector<int64_t>& dimensions);

}  // namespace gpupool::engine
