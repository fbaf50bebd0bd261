// A reader of CSV files: one example for each line, with one or more label
// columns. Columns hold numbers, or text whose categories become numbers. Blank
// lines and a byte order mark are skipped. "\n" and "\r\n" end lines. Cells may
// have blanks around them or be in double quotes. Pure.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/data/csv/options.h"
#include "engine/data/table.h"

namespace gpupool::engine {

// Reads a table from plain bytes or gzip, with feature_shape [numbers of the
// columns that are no label] and, with several label columns, labels of shape
// [label columns]. The bytes are read twice if missing cells are filled in or
// text becomes a number for each category. INVALID_ARGUMENT names the one-based
// line and column of the error and quotes the text. Errors are
// - a line with another number of columns than the first one,
// - a cell that is missing, with MissingRule::kRefuse,
// - in a column of numbers, a cell that is not a finite number, and
// - in a column of text, a category above a limit.
absl::StatusOr<Table> ReadCsv(std::string_view bytes, const CsvOptions& options,
                              const ReadLimits& limits);

}  // namespace gpupool::engine
