// The choice of label columns in a CSV table. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/csv_reader.h"

namespace gpupool::engine {

inline constexpr int32_t kFeatureColumn = -1;

// Returns for each of `width` columns its position in the label, or
// kFeatureColumn. At least one column must be a label and at least one a
// feature. `header` holds the column names and is read only for
// options.label_names. INVALID_ARGUMENT names the column and the existing
// columns; its text continues "line N ".
absl::StatusOr<std::vector<int32_t>> LabelPlaces(
    const CsvOptions& options, absl::Span<const std::string> header,
    uint64_t width);

// Returns the count of label columns.
uint64_t LabelWidth(const CsvOptions& options);

}  // namespace gpupool::engine
