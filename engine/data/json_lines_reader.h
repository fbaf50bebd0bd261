// A reader of JSON lines: one example in each line, as an object whose keys are
// the columns. Columns hold numbers, booleans or strings as those of CSV files
// do, or arrays of numbers, which are as many columns as they have numbers.
// Blank lines and a byte order mark are skipped. Pure.
#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "engine/data/csv/options.h"
#include "engine/data/table.h"

namespace gpupool::engine {

// Reads a table from plain bytes or gzip, as ReadCsv does. The columns are the
// keys of the first object, in their order; the options name and number them,
// and has_header means nothing. A value is missing if it is null, an empty
// string or absent. INVALID_ARGUMENT names the one-based line and the key of
// the error. Errors are those of JsonLineParser and PlanJsonColumns, and
// - a value that is missing, with MissingRule::kRefuse,
// - an object, or an array that holds anything but numbers, booleans and null,
// - a number in a column of strings, or the other way round,
// - an array of another length than that of the first line, and
// - a category above a limit.
absl::StatusOr<Table> ReadJsonLines(std::string_view bytes,
                                    const CsvOptions& options,
                                    const ReadLimits& limits);

// Returns whether the bytes, plain or gzip, begin as an object with a key does,
// after any count of blank lines and byte order marks. True for all bytes that
// ReadJsonLines takes.
bool BeginsWithObject(std::string_view bytes);

}  // namespace gpupool::engine
