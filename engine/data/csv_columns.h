// Which columns of a CSV table are its label. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/csv_reader.h"

namespace gpupool::engine {

inline constexpr int32_t kFeatureColumn = -1;

// For each of `width` columns its place in the label, or kFeatureColumn. The
// label has at least one column, and so have the features. `header` holds the
// names of the columns; it is read only for options.label_names.
// InvalidArgument, to stand behind "line N ", names the column and the
// columns there are.
absl::StatusOr<std::vector<int32_t>> LabelPlaces(
    const CsvOptions& options, absl::Span<const std::string> header,
    uint64_t width);

// How many columns the label has.
uint64_t LabelWidth(const CsvOptions& options);

}  // namespace gpupool::engine
