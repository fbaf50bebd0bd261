#include "client/files/csv_rows.h"

#include <zlib.h>

#include <cerrno>
#include <memory>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/text/counted.h"
#include "client/text/quote.h"

namespace gpupool::client {
namespace {

constexpr size_t kLongestLine = 64 << 20;
constexpr absl::string_view kByteOrderMark = "\xEF\xBB\xBF";

// The lines of a plain or gzip file, without their line ends.
class Lines {
 public:
  explicit Lines(const std::string& path)
      : path_(path), file_(gzopen(path.c_str(), "rb"), &gzclose) {}

  bool is_open() const { return file_ != nullptr; }

  // Reads the next line. Returns false at the end of the file.
  absl::StatusOr<bool> Next(std::string& line) {
    line.clear();
    char buffer[1 << 14];
    while (gzgets(file_.get(), buffer, sizeof(buffer)) != nullptr) {
      line += buffer;
      if (!line.empty() && line.back() == '\n') {
        absl::StripTrailingAsciiWhitespace(&line);
        return true;
      }
      if (line.size() > kLongestLine) {
        return absl::InvalidArgumentError(absl::StrCat(
            path_, " has a line of more than ", kLongestLine, " bytes"));
      }
    }
    int error = Z_OK;
    const char* text = gzerror(file_.get(), &error);
    if (error != Z_OK && error != Z_STREAM_END) {
      return absl::DataLossError(
          absl::StrCat("cannot read ", path_, ": ", text));
    }
    absl::StripTrailingAsciiWhitespace(&line);
    return !line.empty();
  }

 private:
  const std::string path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile_s*)> file_;
};

absl::Status AppendRow(const std::vector<absl::string_view>& fields,
                       std::optional<size_t> label, const std::string& where,
                       CsvRows& rows) {
  for (size_t column = 0; column < fields.size(); ++column) {
    float value = 0;
    if (!absl::SimpleAtof(fields[column], &value)) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, ", column ", column + 1, ": ",
                       Quoted(fields[column]), " is not a number"));
    }
    (label == column ? rows.labels : rows.features).push_back(value);
  }
  ++rows.rows;
  return absl::OkStatus();
}

// Returns the error with what to do about it.
absl::Status WithRemedy(const absl::Status& error, bool may_be_names) {
  return absl::InvalidArgumentError(absl::StrCat(
      error.message(),
      may_be_names ? " (does the file begin with names? --header)"
                   : "; a request takes numbers only, so write the number of a "
                     "category instead of its name"));
}

// Returns the label's position among `columns`, or nullopt without a label.
absl::StatusOr<std::optional<size_t>> LabelPosition(const CsvOptions& options,
                                                    size_t columns,
                                                    const std::string& path) {
  if (!options.label_column.has_value()) return std::optional<size_t>();
  const int64_t count = static_cast<int64_t>(columns);
  int64_t position = *options.label_column;
  if (position < 0) position += count;
  if (position < 0 || position >= count) {
    return absl::InvalidArgumentError(absl::StrCat(
        "label column ", *options.label_column, " does not exist: ", path,
        " has ", Counted(columns, "column"), " (0..", columns - 1,
        ", or -1 for the last)"));
  }
  return std::optional<size_t>(static_cast<size_t>(position));
}

}  // namespace

absl::StatusOr<CsvRows> ReadCsv(const std::string& path,
                                const CsvOptions& options) {
  Lines lines(path);
  if (!lines.is_open()) {
    return absl::ErrnoToStatus(errno == 0 ? ENOENT : errno,
                               absl::StrCat("cannot open ", path));
  }
  CsvRows rows;
  std::string line;
  size_t columns = 0;
  std::optional<size_t> label;
  for (size_t number = 1;; ++number) {
    absl::StatusOr<bool> more = lines.Next(line);
    if (!more.ok()) return more.status();
    if (!*more) break;
    if (number == 1 && absl::StartsWith(line, kByteOrderMark)) {
      line.erase(0, kByteOrderMark.size());
    }
    if (line.empty() || (number == 1 && options.has_header)) continue;
    const std::vector<absl::string_view> fields = absl::StrSplit(line, ',');
    const std::string where = absl::StrCat(path, ": line ", number);
    if (columns == 0) {
      columns = fields.size();
      auto position = LabelPosition(options, columns, path);
      if (!position.ok()) return position.status();
      label = *position;
      rows.width = columns - (label.has_value() ? 1 : 0);
    } else if (fields.size() != columns) {
      return absl::InvalidArgumentError(
          absl::StrCat(where, " has ", Counted(fields.size(), "column"),
                       "; the rows before it have ", columns));
    }
    const absl::Status appended = AppendRow(fields, label, where, rows);
    if (!appended.ok()) {
      return WithRemedy(appended, rows.rows == 0 && !options.has_header);
    }
  }
  if (rows.rows == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has no rows"));
  }
  return rows;
}

}  // namespace gpupool::client
