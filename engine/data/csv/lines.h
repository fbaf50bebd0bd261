// Divides the bytes of a CSV file, or of JSON lines, into records: lines
// without their ends, "\n" or "\r\n". In CSV files a record goes on after a
// line end inside quotes. A byte order mark is skipped. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/bytes/byte_stream.h"

namespace gpupool::engine {

enum class LineForm : uint8_t { kCsv, kJson };

class CsvLines {
 public:
  // The stream must outlive the lines.
  explicit CsvLines(ByteStream& stream, LineForm form = LineForm::kCsv)
      : stream_(stream), form_(form) {}

  // Returns the next record, or nothing at the end. The view is valid until the
  // next call. INVALID_ARGUMENT when
  // - a line has more than 64 MiB,
  // - a record of CSV goes on in quotes more than 1 MiB after its first line
  //   end, or
  // - the last quote of CSV is not closed.
  // Texts of errors continue "line N ".
  absl::StatusOr<std::optional<std::string_view>> Next();

  // Returns the one-based number of the first line of the latest record. After
  // an error of Next, that is the record with the error.
  uint64_t line_number() const { return line_number_; }

 private:
  absl::Status SkipMark();
  std::string_view Take(size_t line_end, size_t next);
  absl::StatusOr<bool> Fill();

  ByteStream& stream_;
  const LineForm form_;
  std::vector<char> buffer_;
  size_t begin_ = 0;     // start of the record
  size_t end_ = 0;       // end of the bytes that were read
  size_t searched_ = 0;  // bytes of the record that contain no end
  uint64_t lines_ = 0;   // lines that were taken
  uint64_t line_number_ = 0;
};

}  // namespace gpupool::engine
