#include "engine/data/table_builder.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/counted.h"
#include "engine/base/status_macros.h"
#include "engine/base/status_place.h"

namespace gpupool::engine {
namespace {

// Bounds a dataset's description, which has all columns of text.
constexpr uint64_t kMostTextColumns = 10'000;

absl::Span<const char> AsBytes(const std::vector<float>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()),
          numbers.size() * sizeof(float)};
}

bool NeedsSurvey(const CsvOptions& options) {
  return options.missing == MissingRule::kMean ||
         options.missing == MissingRule::kZero ||
         options.text == TextRule::kOneHot;
}

}  // namespace

TableBuilder::TableBuilder(const CsvOptions& options, const ReadLimits& limits)
    : options_(options), limits_(limits), surveying_(NeedsSurvey(options)) {}

void TableBuilder::SetColumns(std::vector<ColumnPlan> plans,
                              uint64_t label_width) {
  plans_ = std::move(plans);
  columns_.reserve(plans_.size());
  for (const ColumnPlan& plan : plans_) {
    columns_.emplace_back(plan, options_, &name_bytes_);
  }
  row_labels_.resize(label_width);
  const auto kept = std::count_if(
      plans_.begin(), plans_.end(),
      [](const ColumnPlan& plan) { return plan.place != kSkippedColumn; });
  least_row_bytes_ = static_cast<uint64_t>(kept) * sizeof(float);
}

void TableBuilder::AddOneHot(uint64_t width, size_t index) {
  const size_t begin = row_features_.size();
  row_features_.resize(begin + width);
  row_features_[begin + index] = 1;
}

absl::Status TableBuilder::EndRow() {
  RETURN_IF_ERROR(surveying_ ? CheckSurvey() : Store());
  ++rows_;
  return absl::OkStatus();
}

// Bounds the survey of JSON lines, where a few bytes are a row of all columns.
// The size of CSV files does that, since their rows have a cell for each.
absl::Status TableBuilder::CheckSurvey() const {
  if (!options_.json_lines) return absl::OkStatus();
  return CheckedTableBytes(rows_ + 1, least_row_bytes_, limits_).status();
}

absl::Status TableBuilder::Store() {
  if (row_numbers_ == 0) {
    // The first row that is stored has a value in each column, or a survey
    // found one, so it is known which columns are text.
    RETURN_IF_ERROR(CheckTextColumns());
    RETURN_IF_ERROR(CheckRowNumbers());
    row_numbers_ = FeatureNumbers() + row_labels_.size();
  }
  ASSIGN_OR_RETURN(
      const uint64_t bytes,
      CheckedTableBytes(rows_ + 1, row_numbers_ * sizeof(float), limits_));
  if (bytes > limits_.memory_bytes) RETURN_IF_ERROR(MoveToDisk());
  RETURN_IF_ERROR(features_.Append(AsBytes(row_features_)));
  return labels_.Append(AsBytes(row_labels_));
}

absl::Status TableBuilder::CheckTextColumns() const {
  uint64_t texts = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!skipped(i) && columns_[i].text()) ++texts;
  }
  if (texts <= kMostTextColumns) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "has ", texts, " columns of text, the limit is ", kMostTextColumns,
      "; leave some out by skipped_columns (gpupool: --skip-columns), or name "
      "fewer in text_columns (gpupool: --text-columns)"));
}

absl::Status TableBuilder::CheckRowNumbers() const {
  const uint64_t numbers = FeatureNumbers();
  if (numbers <= columns_.size() || numbers <= kMostTextNumbers) {
    return absl::OkStatus();
  }
  const bool bytes = options_.text == TextRule::kBytes;
  return absl::InvalidArgumentError(absl::StrCat(
      "with ", bytes ? "the bytes of each text" : "a number for each category",
      " a row would have ", numbers, " numbers, the limit is ",
      kMostTextNumbers, "; ",
      bytes ? "set a smaller text_length (gpupool: --text-length)"
            : "set text to INDEX (gpupool: --text index)",
      ", or leave columns out by skipped_columns (gpupool: --skip-columns)"));
}

uint64_t TableBuilder::FeatureNumbers() const {
  uint64_t numbers = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (plans_[i].place == kFeatureColumn) numbers += columns_[i].width();
  }
  return numbers;
}

absl::Status TableBuilder::MoveToDisk() {
  if (on_disk_ || limits_.unpack_dir.empty()) return absl::OkStatus();
  on_disk_ = true;
  RETURN_IF_ERROR(features_.MoveToDisk(limits_.unpack_dir));
  return labels_.MoveToDisk(limits_.unpack_dir);
}

absl::Status TableBuilder::EndSurvey(
    absl::FunctionRef<std::string(size_t)> place_of) {
  surveying_ = false;
  if (rows_ == 0) return absl::OkStatus();  // Finish says so
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (skipped(i)) continue;
    const absl::Status ended = columns_[i].EndSurvey();
    if (!ended.ok()) return AtPlace(place_of(i), ended);
  }
  RETURN_IF_ERROR(CheckRowNumbers());
  return CheckedTableBytes(
             rows_, (FeatureNumbers() + row_labels_.size()) * sizeof(float),
             limits_)
      .status();
}

absl::StatusOr<Table> TableBuilder::Finish() {
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

void TableBuilder::TakeFacts(Table& table) {
  uint64_t first_number = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (skipped(i)) continue;
    const int32_t place = plans_[i].place;
    const uint64_t width = columns_[i].width();
    table.csv_columns.push_back(columns_[i].TakeFacts());
    const bool label = place != kFeatureColumn;
    table.csv_columns.back().first_number =
        label ? static_cast<uint64_t>(place) : first_number;
    if (!label) first_number += width;
  }
}

}  // namespace gpupool::engine
