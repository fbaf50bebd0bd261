#include "engine/data/csv_reader.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/counted.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"
#include "engine/data/bytes/byte_stream.h"
#include "engine/data/column_buffer.h"
#include "engine/data/csv/cells.h"
#include "engine/data/csv/column.h"
#include "engine/data/csv/columns.h"
#include "engine/data/csv_lines.h"

namespace gpupool::engine {
namespace {

// Bounds a dataset's description, which has all columns of text.
constexpr uint64_t kMostTextColumns = 10'000;
// Bounds the numbers that categories make of a row.
constexpr uint64_t kMostOneHotNumbers = uint64_t{1} << 18;

using Cells = absl::Span<const std::string_view>;

absl::Span<const char> AsBytes(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()),
          numbers.size() * sizeof(float)};
}

// Returns whether a row depends on later ones: by the mean of a column, its
// kind, or the number of its categories.
bool NeedsSurvey(const CsvOptions& options) {
  return options.missing == MissingRule::kMean ||
         options.missing == MissingRule::kZero ||
         options.text == TextRule::kOneHot;
}

// Collects the numbers of lines into a table.
class CsvParser {
 public:
  CsvParser(const CsvOptions& options, const ReadLimits& limits)
      : options_(options), limits_(limits), surveying_(NeedsSurvey(options)) {}

  bool surveying() const { return surveying_; }

  // Reads all lines. During a survey the table stays empty.
  absl::Status ReadLines(ByteStream& stream);
  // Ends the survey. ReadLines is then called once more.
  absl::Status EndSurvey();
  absl::StatusOr<Table> Finish();

 private:
  absl::Status AddLine(std::string_view line);
  absl::Status AddRow(Cells cells);
  absl::Status TakeColumns(uint64_t width);
  absl::Status TakeCell(size_t column, std::string_view cell);
  absl::Status Store();
  bool HasMissing(Cells cells) const;
  absl::Status CheckTextColumns() const;
  absl::Status CheckOneHotRows() const;
  // Counts the numbers in a row of features.
  uint64_t FeatureNumbers() const;
  void TakeFacts(Table& table);
  // Moves what was read, and what follows, to the disk.
  absl::Status MoveToDisk();

  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line_number_, " ", what));
  }
  // Returns the column's number and name for errors.
  std::string PlaceOf(size_t column) const;

  const CsvOptions options_;
  const ReadLimits limits_;
  bool surveying_;
  CellSplitter splitter_;
  std::vector<std::string> header_;
  std::vector<ColumnPlan> plans_;
  std::vector<CsvColumn> columns_;
  size_t name_bytes_ = 0;  // of all categories
  uint64_t line_number_ = 0;
  uint64_t rows_ = 0;
  uint64_t dropped_rows_ = 0;
  uint64_t row_numbers_ = 0;         // numbers of a row, once one was stored
  std::vector<float> row_features_;  // of the line
  std::vector<float> row_labels_;    // in the order of the options
  ColumnBuffer features_;
  ColumnBuffer labels_;
  bool on_disk_ = false;
};

absl::Status CsvParser::ReadLines(ByteStream& stream) {
  CsvLines lines(stream);
  bool in_header = options_.has_header;
  rows_ = dropped_rows_ = 0;
  for (;;) {
    auto next = lines.Next();
    line_number_ = lines.line_number();
    if (!next.ok()) {
      return absl::Status(
          next.status().code(),
          absl::StrCat("line ", line_number_, " ", next.status().message()));
    }
    if (!next->has_value()) return absl::OkStatus();
    if (Trimmed(**next).empty()) continue;
    if (!std::exchange(in_header, false)) {
      RETURN_IF_ERROR(AddLine(**next));
      continue;
    }
    const auto names = splitter_.Split(**next);
    if (!names.ok()) return Error(names.status().message());
    header_.assign(names->begin(), names->end());
  }
}

absl::Status CsvParser::AddLine(std::string_view line) {
  const auto cells = splitter_.Split(line);
  if (!cells.ok()) return Error(cells.status().message());
  return AddRow(*cells);
}

absl::Status CsvParser::AddRow(Cells cells) {
  if (columns_.empty()) RETURN_IF_ERROR(TakeColumns(cells.size()));
  if (cells.size() != columns_.size()) {
    return Error(absl::StrCat("has ", cells.size(),
                              " columns where the lines before have ",
                              columns_.size()));
  }
  if (options_.missing == MissingRule::kDropRow && HasMissing(cells)) {
    ++dropped_rows_;
    return absl::OkStatus();
  }
  row_features_.clear();
  for (size_t i = 0; i < cells.size(); ++i) {
    RETURN_IF_ERROR(TakeCell(i, cells[i]));
  }
  if (!surveying_) RETURN_IF_ERROR(Store());
  ++rows_;
  return absl::OkStatus();
}

// Takes the columns from the first line.
absl::Status CsvParser::TakeColumns(uint64_t width) {
  auto plans = PlanColumns(options_, header_, width);
  if (!plans.ok()) return Error(plans.status().message());
  plans_ = *std::move(plans);
  columns_.reserve(plans_.size());
  for (const ColumnPlan& plan : plans_) {
    columns_.emplace_back(plan, options_, &name_bytes_);
  }
  row_labels_.resize(LabelWidth(options_));
  return absl::OkStatus();
}

absl::Status CsvParser::TakeCell(size_t column, std::string_view cell) {
  const int32_t place = plans_[column].place;
  if (place == kSkippedColumn) return absl::OkStatus();
  CsvColumn& taker = columns_[column];
  std::optional<float> number = taker.TakeNumber(cell);
  if (!number) {
    const absl::StatusOr<float> other = taker.Take(cell);
    if (!other.ok()) {
      return Error(
          absl::StrCat(PlaceOf(column), ": ", other.status().message()));
    }
    number = *other;
  }
  taker.Show(cell);
  if (surveying_) return absl::OkStatus();
  if (place != kFeatureColumn) {
    row_labels_[static_cast<size_t>(place)] = *number;
  } else if (taker.one_hot()) {
    const size_t begin = row_features_.size();
    row_features_.resize(begin + taker.width());
    row_features_[begin + static_cast<size_t>(*number)] = 1;
  } else {
    row_features_.push_back(*number);
  }
  return absl::OkStatus();
}

absl::Status CsvParser::Store() {
  if (row_numbers_ == 0) {
    // The first row that is stored has a value in each column, or a survey
    // found one, so it is known which columns are text.
    RETURN_IF_ERROR(CheckTextColumns());
    row_numbers_ = FeatureNumbers() + row_labels_.size();
  }
  ASSIGN_OR_RETURN(
      const uint64_t bytes,
      CheckedTableBytes(rows_ + 1, row_numbers_ * sizeof(float), limits_));
  if (bytes > limits_.memory_bytes) RETURN_IF_ERROR(MoveToDisk());
  RETURN_IF_ERROR(features_.Append(AsBytes(row_features_)));
  return labels_.Append(AsBytes(row_labels_));
}

bool CsvParser::HasMissing(Cells cells) const {
  for (size_t i = 0; i < cells.size(); ++i) {
    if (plans_[i].place != kSkippedColumn && IsMissing(cells[i])) return true;
  }
  return false;
}

absl::Status CsvParser::CheckTextColumns() const {
  uint64_t texts = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (plans_[i].place != kSkippedColumn && columns_[i].text()) ++texts;
  }
  if (texts <= kMostTextColumns) return absl::OkStatus();
  return Error(absl::StrCat(
      "has ", texts, " columns of text, the limit is ", kMostTextColumns,
      "; leave some out by skipped_columns (gpupool: --skip-columns), or name "
      "fewer in text_columns (gpupool: --text-columns)"));
}

absl::Status CsvParser::CheckOneHotRows() const {
  const uint64_t numbers = FeatureNumbers();
  if (numbers > columns_.size() && numbers > kMostOneHotNumbers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "with a number for each category a row would have ", numbers,
        " numbers, the limit is ", kMostOneHotNumbers,
        "; set text to INDEX (gpupool: --text index), or leave columns out by "
        "skipped_columns (gpupool: --skip-columns)"));
  }
  return CheckedTableBytes(
             rows_, (numbers + row_labels_.size()) * sizeof(float), limits_)
      .status();
}

uint64_t CsvParser::FeatureNumbers() const {
  uint64_t numbers = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (plans_[i].place == kFeatureColumn) numbers += columns_[i].width();
  }
  return numbers;
}

absl::Status CsvParser::MoveToDisk() {
  if (on_disk_ || limits_.unpack_dir.empty()) return absl::OkStatus();
  on_disk_ = true;
  RETURN_IF_ERROR(features_.MoveToDisk(limits_.unpack_dir));
  return labels_.MoveToDisk(limits_.unpack_dir);
}

std::string CsvParser::PlaceOf(size_t column) const {
  return absl::StrCat("column ", column + 1,
                      column < header_.size()
                          ? absl::StrCat(" (", QuotedCell(header_[column]), ")")
                          : "");
}

absl::Status CsvParser::EndSurvey() {
  surveying_ = false;
  if (rows_ == 0) return absl::OkStatus();  // Finish says so
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (plans_[i].place == kSkippedColumn) continue;
    const absl::Status ended = columns_[i].EndSurvey();
    if (!ended.ok()) return AtPlace(PlaceOf(i), ended);
  }
  return CheckOneHotRows();
}

absl::StatusOr<Table> CsvParser::Finish() {
  if (rows_ == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("holds no row",
                     dropped_rows_ == 0
                         ? ""
                         : absl::StrCat("; ", Counted(dropped_rows_, "row"),
                                        " with missing cells were left out")));
  }
  const uint64_t width = FeatureNumbers();
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
  table.dropped_rows = dropped_rows_;
  TakeFacts(table);
  return table;
}

void CsvParser::TakeFacts(Table& table) {
  uint64_t first_number = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const int32_t place = plans_[i].place;
    if (place == kSkippedColumn) continue;
    const uint64_t width = columns_[i].width();
    table.csv_columns.push_back(columns_[i].TakeFacts());
    const bool label = place != kFeatureColumn;
    table.csv_columns.back().first_number =
        label ? static_cast<uint64_t>(place) : first_number;
    if (!label) first_number += width;
  }
}

}  // namespace

absl::StatusOr<Table> ReadCsv(std::string_view bytes, const CsvOptions& options,
                              const ReadLimits& limits) {
  CsvParser parser(options, limits);
  if (parser.surveying()) {
    RETURN_IF_ERROR(parser.ReadLines(*OpenByteStream(bytes)));
    RETURN_IF_ERROR(parser.EndSurvey());
  }
  RETURN_IF_ERROR(parser.ReadLines(*OpenByteStream(bytes)));
  return parser.Finish();
}

}  // namespace gpupool::engine
