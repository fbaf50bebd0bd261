// Reads files whose lines are rows into a table: one pass, or two when the rows
// must be surveyed first. A subclass knows the syntax of a line.
//
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/data/bytes/byte_stream.h"
#include "engine/data/csv/lines.h"
#include "engine/data/csv/options.h"
#include "engine/data/table.h"
#include "engine/data/table_builder.h"

namespace gpupool::engine {

class RowLinesReader {
 public:
  virtual ~RowLinesReader() = default;

  // Returns the table of the file `bytes`, plain or gzip. Call it once. Errors
  // begin with the line, and the column where there is one.
  absl::StatusOr<Table> Read(std::string_view bytes);

 protected:
  RowLinesReader(const CsvOptions& options, const ReadLimits& limits,
                 LineForm form)
      : builder_(options, limits), form_(form) {}

  // Begins another pass over the lines.
  virtual void BeginLines() {}
  // Takes the next line that is not blank.
  virtual absl::Status AddLine(std::string_view line) = 0;
  // Returns how errors name the column.
  virtual std::string PlaceOf(size_t column) const = 0;

  // Ends the row of this line.
  absl::Status EndRow();

  // Returns INVALID_ARGUMENT with this line, and the column, in front.
  absl::Status Error(absl::string_view what) const;
  absl::Status ErrorAt(size_t column, absl::string_view what) const;

  TableBuilder builder_;

 private:
  absl::Status ReadLines(ByteStream& stream);

  const LineForm form_;
  uint64_t line_number_ = 0;
};

}  // namespace gpupool::engine
