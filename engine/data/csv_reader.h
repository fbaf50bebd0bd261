// Reads comma-separated numbers: one example a line, one column of it or
// several the label. Blank lines are skipped; "\n" and "\r\n" end lines;
// numbers may have spaces around them or stand in double quotes; a byte order
// mark is skipped.
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
  // Instead of it, the columns of a label of several numbers in their order:
  // by number or, with has_header, by name.
  std::vector<int32_t> label_columns;
  std::vector<std::string> label_names;
  bool has_header = false;
};

// The table has feature_shape [columns that are no label] and, with several
// label columns, labels of shape [label columns]. InvalidArgument names the
// one-based line and column of what is wrong and quotes it: not a number, not
// finite, another number of columns than the first line has.
absl::StatusOr<Table> ReadCsv(ByteStream& stream, const CsvOptions& options,
                              const ReadLimits& limits);

}  // namespace gpupool::engine
