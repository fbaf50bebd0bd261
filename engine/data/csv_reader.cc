#include "engine/data/csv_reader.h"

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/data/bytes/byte_stream.h"
#include "engine/data/csv/cells.h"
#include "engine/data/csv/column.h"
#include "engine/data/csv/columns.h"
#include "engine/data/csv/lines.h"
#include "engine/data/table_builder.h"

namespace gpupool::engine {
namespace {

using Cells = absl::Span<const std::string_view>;

// Takes the cells of lines to a table.
class CsvParser {
 public:
  CsvParser(const CsvOptions& options, const ReadLimits& limits)
      : builder_(options, limits) {}

  bool surveying() const { return builder_.surveying(); }

  // Reads all lines. During a survey the table stays empty.
  absl::Status ReadLines(ByteStream& stream);
  // Ends the survey. ReadLines is then called once more.
  absl::Status EndSurvey() {
    return builder_.EndSurvey(
        [this](size_t column) { return PlaceOf(column); });
  }
  absl::StatusOr<Table> Finish() { return builder_.Finish(); }

 private:
  absl::Status AddLine(std::string_view line);
  absl::Status AddRow(Cells cells);
  absl::Status TakeColumns(uint64_t width);
  absl::Status TakeCell(size_t column, std::string_view cell);
  bool HasMissing(Cells cells) const;

  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("line ", line_number_, " ", what));
  }
  // Returns the column's number and name for errors.
  std::string PlaceOf(size_t column) const;

  TableBuilder builder_;
  CellSplitter splitter_;
  std::vector<std::string> header_;
  uint64_t line_number_ = 0;
};

absl::Status CsvParser::ReadLines(ByteStream& stream) {
  CsvLines lines(stream);
  bool in_header = builder_.options().has_header;
  builder_.BeginPass();
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
  if (builder_.columns() == 0) RETURN_IF_ERROR(TakeColumns(cells.size()));
  if (cells.size() != builder_.columns()) {
    return Error(absl::StrCat("has ", cells.size(),
                              " columns where the lines before have ",
                              builder_.columns()));
  }
  if (builder_.options().missing == MissingRule::kDropRow &&
      HasMissing(cells)) {
    builder_.DropRow();
    return absl::OkStatus();
  }
  builder_.BeginRow();
  for (size_t i = 0; i < cells.size(); ++i) {
    RETURN_IF_ERROR(TakeCell(i, cells[i]));
  }
  const absl::Status ended = builder_.EndRow();
  return absl::IsInvalidArgument(ended) ? Error(ended.message()) : ended;
}

// Takes the columns from the first line.
absl::Status CsvParser::TakeColumns(uint64_t width) {
  auto plans = PlanColumns(builder_.options(), header_, width);
  if (!plans.ok()) return Error(plans.status().message());
  builder_.SetColumns(*std::move(plans), LabelWidth(builder_.options()));
  return absl::OkStatus();
}

absl::Status CsvParser::TakeCell(size_t column, std::string_view cell) {
  if (builder_.skipped(column)) return absl::OkStatus();
  CsvColumn& taker = builder_.column(column);
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
  builder_.Add(column, *number);
  return absl::OkStatus();
}

bool CsvParser::HasMissing(Cells cells) const {
  for (size_t i = 0; i < cells.size(); ++i) {
    if (!builder_.skipped(i) && IsMissing(cells[i])) return true;
  }
  return false;
}

std::string CsvParser::PlaceOf(size_t column) const {
  return absl::StrCat("column ", column + 1,
                      column < header_.size()
                          ? absl::StrCat(" (", QuotedCell(header_[column]), ")")
                          : "");
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
