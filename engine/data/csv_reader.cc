#include "engine/data/csv_reader.h"

#include <cmath>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/data/csv_columns.h"
#include "engine/data/csv_number.h"

namespace gpupool::engine {
namespace {

constexpr size_t kChunkBytes = 256 << 10;
// Bounds the buffer for files without line ends, such as binary ones.
constexpr size_t kMaxLineBytes = 64 << 20;
constexpr size_t kMaxQuoted = 40;

// Returns the text for an error: escaped and cut.
std::string Quoted(std::string_view text) {
  std::string shown = absl::CHexEscape(std::string(text.substr(0, kMaxQuoted)));
  if (text.size() > kMaxQuoted) shown += "...";
  return absl::StrCat("\"", shown, "\"");
}

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) {
    text.remove_prefix(1);
  }
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) {
    text.remove_suffix(1);
  }
  return text;
}

std::string_view Unquoted(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"' && text.back() == '"') {
    return Trimmed(text.substr(1, text.size() - 2));
  }
  return text;
}

// Splits the stream into lines without their ends.
class LineReader {
 public:
  explicit LineReader(ByteStream& stream) : stream_(stream) {}

  // Returns the next line, or nothing at the end. The view is valid until the
  // next call.
  absl::StatusOr<std::optional<std::string_view>> Next() {
    for (;;) {
      const size_t from = begin_ + searched_;
      const void* found = std::memchr(buffer_.data() + from, '\n', end_ - from);
      if (found != nullptr) {
        const size_t at = static_cast<size_t>(static_cast<const char*>(found) -
                                              buffer_.data());
        return Take(at, at + 1);
      }
      // A long line is searched once, and not again after each chunk.
      searched_ = end_ - begin_;
      ASSIGN_OR_RETURN(const bool more, Fill());
      if (more) continue;
      if (begin_ == end_) return std::nullopt;
      return Take(end_, end_);
    }
  }

 private:
  std::string_view Take(size_t line_end, size_t next) {
    std::string_view line(buffer_.data() + begin_, line_end - begin_);
    if (!line.empty() && line.back() == '\r') line.remove_suffix(1);
    begin_ = next;
    searched_ = 0;
    return line;
  }

  absl::StatusOr<bool> Fill() {
    if (end_ - begin_ > kMaxLineBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "is longer than ", kMaxLineBytes, " bytes; is this a CSV file?"));
    }
    // Moves the unfinished line to the front, so the buffer stays as long as a
    // line and a chunk.
    std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
    if (buffer_.size() < end_ + kChunkBytes) buffer_.resize(end_ + kChunkBytes);
    ASSIGN_OR_RETURN(
        const size_t count,
        stream_.Read(absl::MakeSpan(buffer_.data() + end_, kChunkBytes)));
    end_ += count;
    return count > 0;
  }

  ByteStream& stream_;
  std::vector<char> buffer_ = std::vector<char>(2 * kChunkBytes);
  size_t begin_ = 0;     // start of the line
  size_t end_ = 0;       // end of the bytes that were read
  size_t searched_ = 0;  // bytes of the line that contain no line end
};

// Collects the numbers of lines into a table.
class CsvParser {
 public:
  CsvParser(const CsvOptions& options, const ReadLimits& limits)
      : options_(options), limits_(limits) {}

  absl::Status AddLine(std::string_view line, uint64_t number) {
    line_number_ = number;
    if (columns_ == 0) RETURN_IF_ERROR(TakeWidth(line));
    // Labels have fixed places in a row, in the order that the options give, so
    // their slots are made before the fields are read.
    table_.labels.resize(table_.labels.size() + table_.row_labels);
    uint64_t column = 0;
    for (;;) {
      // Fields hold numbers only, so a comma always ends one, also in quotes.
      const size_t comma = line.find(',');
      RETURN_IF_ERROR(AddField(line.substr(0, comma), ++column));
      if (comma == std::string_view::npos) break;
      line.remove_prefix(comma + 1);
    }
    if (column != columns_) return WrongWidth(column);
    ++table_.rows;
    return CheckedTableBytes(table_.rows, columns_ - table_.row_labels,
                             table_.row_labels, limits_)
        .status();
  }

  // Takes the column names from the header line.
  void TakeHeader(std::string_view line) {
    for (absl::string_view name :
         absl::StrSplit(absl::string_view(line.data(), line.size()), ',')) {
      header_.emplace_back(Unquoted(Trimmed({name.data(), name.size()})));
    }
  }

  absl::StatusOr<Table> Finish() {
    if (table_.rows == 0) {
      return absl::InvalidArgumentError("holds no line with numbers");
    }
    table_.row_features = columns_ - table_.row_labels;
    table_.feature_shape = {static_cast<int64_t>(table_.row_features)};
    std::vector<int64_t> label_shape;
    if (table_.row_labels > 1) {
      label_shape = {static_cast<int64_t>(table_.row_labels)};
    }
    table_.label_facts = SummarizeLabels(label_shape, table_.labels);
    return std::move(table_);
  }

 private:
  // Takes the number of columns, and the label's positions, from the first
  // line.
  absl::Status TakeWidth(std::string_view line) {
    columns_ = 1;
    for (char c : line) columns_ += c == ',';
    auto places = LabelPlaces(options_, header_, columns_);
    if (!places.ok()) return Error(places.status().message());
    label_places_ = *std::move(places);
    table_.row_labels = LabelWidth(options_);
    return absl::OkStatus();
  }

  absl::Status AddField(std::string_view raw, uint64_t column) {
    if (column > columns_) return absl::OkStatus();  // WrongWidth reports it
    const std::string_view text = Unquoted(Trimmed(raw));
    const std::optional<double> value = ParseNumber(text);
    // The range is that of a float: 1e39 is a finite double, but not here.
    const float number = value ? static_cast<float>(*value) : NAN;
    if (!std::isfinite(number)) return BadNumber(text, column);
    const int32_t place = label_places_[column - 1];
    if (place == kFeatureColumn) {
      table_.features.push_back(number);
    } else {
      table_.labels[table_.rows * table_.row_labels +
                    static_cast<uint64_t>(place)] = number;
    }
    return absl::OkStatus();
  }

  absl::Status BadNumber(std::string_view text, uint64_t column) const {
    std::string message =
        text.empty() ? absl::StrCat("column ", column, " is empty")
                     : absl::StrCat("column ", column, ": ", Quoted(text),
                                    " is not a finite number");
    if (table_.rows == 0 && !options_.has_header) {
      message +=
          "; if the line holds column names, set has_header "
          "(gpupool: --header)";
    }
    return Error(message);
  }

  absl::Status WrongWidth(uint64_t found) const {
    return Error(absl::StrCat("has ", found,
                              " columns where the lines before "
                              "have ",
                              columns_));
  }

  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line_number_, " ", what));
  }

  const CsvOptions options_;
  const ReadLimits limits_;
  uint64_t columns_ = 0;
  std::vector<int32_t> label_places_;  // by column
  std::vector<std::string> header_;
  uint64_t line_number_ = 0;
  Table table_;
};

}  // namespace

absl::StatusOr<Table> ReadCsv(ByteStream& stream, const CsvOptions& options,
                              const ReadLimits& limits) {
  LineReader lines(stream);
  CsvParser parser(options, limits);
  bool skip_header = options.has_header;
  for (uint64_t number = 1;; ++number) {
    auto next = lines.Next();
    if (!next.ok()) {
      return absl::Status(
          next.status().code(),
          absl::StrCat("line ", number, " ", next.status().message()));
    }
    if (!next->has_value()) return parser.Finish();
    std::string_view line = **next;
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (number == 1 && line.substr(0, 3) == kByteOrderMark) {
      line.remove_prefix(3);
    }
    if (Trimmed(line).empty()) continue;
    if (std::exchange(skip_header, false)) {
      parser.TakeHeader(line);
      continue;
    }
    RETURN_IF_ERROR(parser.AddLine(line, number));
  }
}

}  // namespace gpupool::engine
