// Finds which columns of a table the keys of JSON lines make. A key with an
// array of N numbers makes N columns, named KEY[0] to KEY[N-1]. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/data/csv/columns.h"
#include "engine/data/csv/options.h"
#include "engine/data/json/line.h"

namespace gpupool::engine {

// Bytes of the keys in the names of all columns of arrays.
inline constexpr uint64_t kMaxJsonNameBytes = 64 << 20;

struct JsonKeyColumns {
  size_t first = 0;    // its first column
  size_t count = 1;    // its columns
  bool array = false;  // the key holds an array in each line
};

struct JsonColumns {
  std::vector<JsonKeyColumns> keys;
  std::vector<ColumnPlan> plans;  // by column
  uint64_t label_width = 0;       // numbers of a label
};

// Returns the columns for the first line's keys and values. Options that name
// or number a column mean a key, with all of its columns. INVALID_ARGUMENT
// - as PlanColumns,
// - for an empty array, or one of a column that the options make text,
// - for more than kMaxCsvColumns columns, and
// - for more than kMaxJsonNameBytes.
// Its text continues "line N ".
absl::StatusOr<JsonColumns> PlanJsonColumns(const CsvOptions& options,
                                            absl::Span<const std::string> keys,
                                            absl::Span<const JsonValue> values);

// Returns the key of a column.
size_t KeyOfColumn(const JsonColumns& columns, size_t column);

}  // namespace gpupool::engine
