// Finds what the options of a CSV file, or of JSON lines, say about each of
// the columns. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/csv/options.h"

namespace gpupool::engine {

inline constexpr int32_t kFeatureColumn = -1;
inline constexpr int32_t kSkippedColumn = -2;

struct ColumnPlan {
  std::string name;  // the header's; without one, the zero-based number
  int32_t place = kFeatureColumn;  // of a label: its position in the label
  bool text = false;               // the options say so
  // The only categories, or null. The options own them.
  const std::vector<std::string>* categories = nullptr;
};

// Returns a plan for each of `width` columns. At least one column must be a
// label and at least one a feature. `header` holds the column names.
// INVALID_ARGUMENT names the column and the existing columns; its text
// continues "line N ".
absl::StatusOr<std::vector<ColumnPlan>> PlanColumns(
    const CsvOptions& options, absl::Span<const std::string> header,
    uint64_t width);

// Returns the count of label columns.
uint64_t LabelWidth(const CsvOptions& options);

}  // namespace gpupool::engine
