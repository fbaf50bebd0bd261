// Makes a table of rows whose values come one at a time, whatever the syntax of
// the file is. The columns are those of the csv room. A reader takes
//
//   1. with surveying(), all rows, then EndSurvey
//   2. all rows
//   3. Finish
//
// and begins 1 and 2 by BeginPass. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/column_buffer.h"
#include "engine/data/csv/column.h"
#include "engine/data/csv/columns.h"
#include "engine/data/csv/options.h"
#include "engine/data/table.h"

namespace gpupool::engine {

// Bounds the numbers that text makes of a row.
inline constexpr uint64_t kMostTextNumbers = uint64_t{1} << 18;

class TableBuilder {
 public:
  TableBuilder(const CsvOptions& options, const ReadLimits& limits);
  // Columns refer to the options and to each other's count of bytes.
  TableBuilder(const TableBuilder&) = delete;
  TableBuilder& operator=(const TableBuilder&) = delete;

  const CsvOptions& options() const { return options_; }
  // Returns whether a row depends on later ones, by the mean of a column, its
  // kind, or the number of its categories. The table then stays empty until
  // EndSurvey.
  bool surveying() const { return surveying_; }

  // Takes the columns, in the order of the file. A label has `label_width`
  // numbers. Call it once, before the first row.
  void SetColumns(std::vector<ColumnPlan> plans, uint64_t label_width);
  // Returns the count of columns, 0 before SetColumns.
  size_t columns() const { return columns_.size(); }
  bool skipped(size_t column) const {
    return plans_[column].place == kSkippedColumn;
  }
  CsvColumn& column(size_t column) { return columns_[column]; }

  void BeginPass() { rows_ = dropped_rows_ = 0; }
  // Counts a row that is left out for a missing value.
  void DropRow() { ++dropped_rows_; }
  void BeginRow() { row_features_.clear(); }
  // Adds the number that column(column) made of a value. Each column that is
  // not skipped gets one, in order.
  void Add(size_t column, float number) {
    if (surveying_) return;
    const int32_t place = plans_[column].place;
    if (place != kFeatureColumn) {
      row_labels_[static_cast<size_t>(place)] = number;
    } else if (columns_[column].bytes()) {
      // Store refuses longer rows.
      if (row_features_.size() <= kMostTextNumbers) {
        columns_[column].AddBytesTo(row_features_);
      }
    } else if (columns_[column].one_hot()) {
      AddOneHot(columns_[column].width(), static_cast<size_t>(number));
    } else {
      row_features_.push_back(number);
    }
  }
  // Stores the row. INVALID_ARGUMENT for too many columns of text; its text
  // continues "line N ". RESOURCE_EXHAUSTED above the limits or when the disk
  // is full.
  absl::Status EndRow();

  // Ends the survey. INVALID_ARGUMENT if a column has no value, with its place,
  // or if a row would have too many numbers.
  absl::Status EndSurvey(absl::FunctionRef<std::string(size_t)> place_of);
  // Returns the table. INVALID_ARGUMENT without a row.
  absl::StatusOr<Table> Finish();

 private:
  void AddOneHot(uint64_t width, size_t index);
  absl::Status CheckSurvey() const;
  absl::Status Store();
  absl::Status CheckTextColumns() const;
  absl::Status CheckRowNumbers() const;
  // Counts the numbers in a row of features.
  uint64_t FeatureNumbers() const;
  void TakeFacts(Table& table);
  // Moves what was read, and what follows, to the disk.
  absl::Status MoveToDisk();

  const CsvOptions options_;
  const ReadLimits limits_;
  bool surveying_;
  std::vector<ColumnPlan> plans_;
  std::vector<CsvColumn> columns_;
  size_t name_bytes_ = 0;  // of all categories
  uint64_t rows_ = 0;
  uint64_t dropped_rows_ = 0;
  uint64_t least_row_bytes_ = 0;     // without what one-hot adds
  uint64_t row_numbers_ = 0;         // numbers of a row, once one was stored
  std::vector<float> row_features_;  // of the row
  std::vector<float> row_labels_;    // by the places of the plans
  ColumnBuffer features_;
  ColumnBuffer labels_;
  bool on_disk_ = false;
};

}  // namespace gpupool::engine
