// Reads rows of numbers from a plain or gzip CSV file, for `models infer`.
//
// Thread-safety: none needed; a CsvRows is a value.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace gpupool::client {

struct CsvOptions {
  // Zero-based column of the label. Negative numbers count from the end.
  // nullopt: no column is a label.
  std::optional<int> label_column = -1;
  bool has_header = false;
};

struct CsvRows {
  size_t rows = 0;
  size_t width = 0;             // features per row
  std::vector<float> features;  // rows * width numbers, row by row
  std::vector<float> labels;    // one per row; empty without a label column

  absl::Span<const float> Row(size_t index) const {
    return absl::MakeConstSpan(features).subspan(index * width, width);
  }
};

// Reads the whole file. NotFound if it does not exist. Other errors name file,
// line and column: a field that is not a number, with a remedy, a row of a
// different width, a label column that does not exist.
absl::StatusOr<CsvRows> ReadCsv(const std::string& path,
                                const CsvOptions& options);

}  // namespace gpupool::client
