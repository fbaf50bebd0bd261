#include "engine/data/csv_reader.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/data/csv/cells.h"
#include "engine/data/csv/column.h"
#include "engine/data/csv/columns.h"
#include "engine/data/row_lines_reader.h"

namespace gpupool::engine {
namespace {

using Cells = absl::Span<const std::string_view>;

// Takes the cells of lines to a table.
class CsvParser final : public RowLinesReader {
 public:
  CsvParser(const CsvOptions& options, const ReadLimits& limits)
      : RowLinesReader(options, limits, LineForm::kCsv) {}

 private:
  void BeginLines() override { in_header_ = builder_.options().has_header; }
  absl::Status AddLine(std::string_view line) override;
  // Returns the column's number and name.
  std::string PlaceOf(size_t column) const override;
  absl::Status AddRow(Cells cells);
  absl::Status TakeColumns(uint64_t width);
  absl::Status TakeCell(size_t column, std::string_view cell);
  bool HasMissing(Cells cells) const;

  CellSplitter splitter_;
  std::vector<std::string> header_;
  bool in_header_ = false;
};

absl::Status CsvParser::AddLine(std::string_view line) {
  const auto cells = splitter_.Split(line);
  if (!cells.ok()) return Error(cells.status().message());
  if (!std::exchange(in_header_, false)) return AddRow(*cells);
  header_.assign(cells->begin(), cells->end());
  return absl::OkStatus();
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
  return EndRow();
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
    if (!other.ok()) return ErrorAt(column, other.status().message());
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
  return CsvParser(options, limits).Read(bytes);
}

}  // namespace gpupool::engine
