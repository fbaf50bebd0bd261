// Rows of numbers from a CSV file, plain or gzip: what `models infer` sends.
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
  // Zero-based column of the label; negative counts from the end; nullopt: no
  // column is a label.
  std::optional<int> label_column = -1;
  bool has_header = false;
};

struct CsvRows {
  size_t rows = 0;
  size_t width = 0;             // features of a row
  std::vector<float> features;  // rows * width, row after row
  std::vector<float> labels;    // rows, or empty without a label column

  absl::Span<const float> Row(size_t index) const {
    return absl::MakeConstSpan(features).subspan(index * width, width);
  }
};

// Reads the whole file. Errors name file, line and column: a field that is no
// number, a row of another width, a label column that does not exist.
// NotFound when the file does not exist.
absl::StatusOr<CsvRows> ReadCsv(const std::string& path,
                                const CsvOptions& options);

}  // namespace gpupool::client
