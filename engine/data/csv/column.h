// One column of a CSV file, or one key of JSON lines, while its cells are read.
// The first cell that is not missing decides whether the column holds numbers
// or text, unless the options do. Cells of text become the index of their
// category, in the order of first appearance, or with TextRule::kBytes their
// bytes. Not thread-safe.
#pragma once

#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/data/csv/column_facts.h"
#include "engine/data/csv/columns.h"
#include "engine/data/csv/number.h"
#include "engine/data/csv/options.h"

namespace gpupool::engine {

class CsvColumn {
 public:
  // The options and the plan's categories must outlive the column.
  // `name_bytes` counts the bytes of the names of all columns.
  CsvColumn(const ColumnPlan& plan, const CsvOptions& options,
            size_t* name_bytes);

  // Returns the number of a cell in a column that is known to hold numbers;
  // nothing if Take must look at the cell.
  std::optional<float> TakeNumber(std::string_view cell) {
    if (kind_ != Kind::kNumber) return std::nullopt;
    const std::optional<double> value = ParseNumber(cell);
    return value ? TakeNumber(*value) : std::nullopt;
  }
  std::optional<float> TakeNumber(double value) {
    if (kind_ != Kind::kNumber) return std::nullopt;
    // The range is that of a float: 1e39 is a finite double, but not here.
    const float number = static_cast<float>(value);
    if (!std::isfinite(number)) return std::nullopt;
    if (learning_) Count(number);
    return number;
  }

  // Returns the number of a cell, or the index of its category.
  // INVALID_ARGUMENT says what is wrong with the cell and what to do. During a
  // survey the number of a missing cell is not yet known and is 0.
  absl::StatusOr<float> Take(std::string_view cell);

  // TakeTyped, TakeString and TakeMissing do the same for files that tell
  // numbers, text and missing values from each other. Numbers and text in one
  // column are an error, unless the options make the column text. `text` is the
  // number as it is written.
  absl::StatusOr<float> TakeTyped(double number, std::string_view text);
  absl::StatusOr<float> TakeString(std::string_view text);
  // `what` begins the error, such as "the cell is empty".
  absl::StatusOr<float> TakeMissing(absl::FunctionRef<std::string()> what);

  // Returns whether Show keeps the next text.
  bool shows() const {
    return learning_ && facts_.first_values.size() < kShownRows;
  }
  // Keeps the text of a value that was taken for the facts if it is one of the
  // first kShownRows.
  void Show(std::string_view cell) {
    if (shows()) AddFirstValue(cell);
  }

  // Ends a survey of all cells. They are then taken once more and not counted
  // again. INVALID_ARGUMENT if no cell has a value.
  absl::Status EndSurvey();

  bool label() const { return facts_.label; }
  // Returns whether the cells so far are text.
  bool text() const { return kind_ == Kind::kText; }
  // Returns the count of numbers that a row has for this column.
  uint64_t width() const {
    return bytes()     ? options_->text_length
           : one_hot() ? facts_.categories.size()
                       : 1;
  }
  // Returns whether the number is an index that becomes a row of 0 and 1.
  bool one_hot() const {
    return kind_ == Kind::kText && !facts_.label &&
           options_->text == TextRule::kOneHot;
  }
  // Returns whether the value that was taken is text that becomes its bytes.
  // The number of it means nothing.
  bool bytes() const {
    return kind_ == Kind::kText && !facts_.label &&
           options_->text == TextRule::kBytes;
  }
  // Adds width() numbers: the bytes of the text that was taken last, cut at the
  // end of a character, and zeros.
  void AddBytesTo(std::vector<float>& numbers) const;
  // Takes the facts. Call it once, at the end.
  CsvColumnFacts TakeFacts();

 private:
  enum class Kind : uint8_t { kUnknown, kNumber, kText };

  void Count(float number) {
    const double value = number;
    if (value < facts_.minimum) facts_.minimum = value;
    if (value > facts_.maximum) facts_.maximum = value;
    facts_.sum += value;
    ++facts_.numbers;
  }
  void AddFirstValue(std::string_view cell);
  absl::Status Decide(std::string_view cell);
  void BecomeText();
  absl::StatusOr<float> TakeText(std::string_view cell);
  absl::StatusOr<float> TakeBytes(std::string_view cell);
  absl::StatusOr<uint32_t> AddCategory(std::string_view cell);
  absl::Status CheckFirstLine(std::string_view cell) const;
  absl::Status NoNumber(std::string_view cell) const;

  const CsvOptions* options_;
  size_t* name_bytes_;
  CsvColumnFacts facts_;
  Kind kind_ = Kind::kUnknown;
  bool learning_ = true;
  bool fixed_ = false;    // no category may be added
  bool guessed_ = false;  // text, and the options do not say so
  std::string text_;      // with bytes(): the last text, cut
  std::unique_ptr<absl::flat_hash_map<std::string, uint32_t>> indexes_;
};

}  // namespace gpupool::engine
