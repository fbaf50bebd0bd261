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
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/data/column_buffer.h"
#include "engine/data/csv_columns.h"
#include "engine/data/csv_number.h"

namespace gpupool::engine {
namespace {

constexpr size_t kCsvChunkBytes = 256 << 10;
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
    if (buffer_.size() < end_ + kCsvChunkBytes)
      buffer_.resize(end_ + kCsvChunkBytes);
    ASSIGN_OR_RETURN(
        const size_t count,
        stream_.Read(absl::MakeSpan(buffer_.data() + end_, kCsvChunkBytes)));
    end_ += count;
    return count > 0;
  }

  ByteStream& stream_;
  std::vector<char> buffer_ = std::vector<char>(2 * kCsvChunkBytes);
  size_t begin_ = 0;     // start of the line
  size_t end_ = 0;       // end of the bytes that were read
  size_t searched_ = 0;  // bytes of the line that contain no line end
};

absl::Span<const char> AsBytes(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()),
          numbers.size() * sizeof(float)};
}

// Collects the numbers of lines into a table.
class CsvParser {
 public:
  CsvParser(const CsvOptions& options, const ReadLimits& limits)
      : options_(options), limits_(limits) {}

  absl::Status AddLine(std::string_view line, uint64_t number) {
    line_number_ = number;
    if (columns_ == 0) RETURN_IF_ERROR(TakeWidth(line));
    row_features_.clear();
    uint64_t column = 0;
    for (;;) {
      // Fields hold numbers only, so a comma always ends one, also in quotes.
      const size_t comma = line.find(',');
      RETURN_IF_ERROR(AddField(line.substr(0, comma), ++column));
      if (comma == std::string_view::npos) break;
      line.remove_prefix(comma + 1);
    }
    if (column != columns_) return WrongWidth(column);
    ASSIGN_OR_RETURN(
        const uint64_t bytes,
        CheckedTableBytes(rows_ + 1, columns_ * sizeof(float), limits_));
    ++rows_;
    if (bytes > limits_.memory_bytes) RETURN_IF_ERROR(MoveToDisk());
    RETURN_IF_ERROR(features_.Append(AsBytes(row_features_)));
    return labels_.Append(AsBytes(row_labels_));
  }

  // Takes the column names from the header line.
  void TakeHeader(std::string_view line) {
    for (absl::string_view name :
         absl::StrSplit(absl::string_view(line.data(), line.size()), ',')) {
      header_.emplace_back(Unquoted(Trimmed({name.data(), name.size()})));
    }
  }

  absl::StatusOr<Table> Finish() {
    if (rows_ == 0) {
      return absl::InvalidArgumentError("holds no line with numbers");
    }
    const uint64_t width = columns_ - row_labels_.size();
    Column features{
        .shape = {static_cast<int64_t>(width)}, .rows = rows_, .width = width};
    RETURN_IF_ERROR(features_.MoveTo(features));
    Column labels{.rows = rows_, .width = row_labels_.size()};
    if (labels.width > 1) {
      labels.shape = {static_cast<int64_t>(labels.width)};
    }
    RETURN_IF_ERROR(labels_.MoveTo(labels));
    labels.facts = SummarizeLabels(labels);
    Table table{.rows = rows_};
    table.inputs.push_back(std::move(features));
    table.targets.push_back(std::move(labels));
    return table;
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
    row_labels_.resize(LabelWidth(options_));
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
      row_features_.push_back(number);
    } else {
      row_labels_[static_cast<size_t>(place)] = number;
    }
    return absl::OkStatus();
  }

  // Moves what was read, and what follows, to the disk.
  absl::Status MoveToDisk() {
    if (on_disk_ || limits_.unpack_dir.empty()) return absl::OkStatus();
    on_disk_ = true;
    RETURN_IF_ERROR(features_.MoveToDisk(limits_.unpack_dir));
    return labels_.MoveToDisk(limits_.unpack_dir);
  }

  absl::Status BadNumber(std::string_view text, uint64_t column) const {
    std::string message =
        text.empty() ? absl::StrCat("column ", column, " is empty")
                     : absl::StrCat("column ", column, ": ", Quoted(text),
                                    " is not a finite number");
    if (rows_ == 0 && !options_.has_header) {
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
  uint64_t rows_ = 0;
  std::vector<float> row_features_;  // of the line
  std::vector<float> row_labels_;    // in the order of the options
  ColumnBuffer features_;
  ColumnBuffer labels_;
  bool on_disk_ = false;
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
