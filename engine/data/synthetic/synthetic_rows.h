// Rows of the named synthetic datasets. Pure: the same arguments give the same
// numbers on every machine, up to the rounding of its mathematical functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace gpupool::v1 {
class SyntheticData;
}  // namespace gpupool::v1

namespace gpupool::engine {

struct SyntheticRows {
  std::vector<float> features;  // row-major
  std::vector<float> labels;    // one class each, from 0
};

// The form of the rows.
struct SyntheticForm {
  uint64_t rows = 0;
  uint32_t classes = 0;
  std::vector<int64_t> shape;  // of a row's features
};

// Makes rows, each with a class that is drawn with equal chances. Fewer rows
// are the first of more. The caller has checked that they fit in memory.
// INVALID_ARGUMENT for a kind that does not have this shape or so many classes.
absl::StatusOr<SyntheticRows> MakeSyntheticRows(const v1::SyntheticData& data,
                                                const SyntheticForm& form);

}  // namespace gpupool::engine
