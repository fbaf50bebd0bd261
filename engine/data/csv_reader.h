// A reader of comma-separated numbers: one example for each line, with one or
// more label columns. Blank lines and a byte order mark are skipped. "\n" and
// "\r\n" end lines. Numbers may have spaces around them or be in double quotes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/data/byte_stream.h"
#include "engine/data/table.h"

namespace gpupool::engine {

struct CsvOptions {
  int32_t label_column = -1;  // negative counts from the end
  // Columns of a label of several numbers, in order: by number or, with
  // has_header, by name. They replace label_column.
  std::vector<int32_t> label_columns;
  std::vector<std::string> label_names;
  bool has_header = false;
};

// Reads a table with feature_shape [columns that are no label] and, with
// several label columns, labels of shape [label columns]. INVALID_ARGUMENT
// names the one-based line and column of the error and quotes the text. Errors
// are a field that is not a finite number, and a line with another number of
// columns than the first one.
absl::StatusOr<Table> ReadCsv(ByteStream& stream, const CsvOptions& options,
                              const ReadLimits& limits);

}  // namespace gpupool::engine
