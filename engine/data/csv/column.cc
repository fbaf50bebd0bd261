#include "engine/data/csv/column.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/category_limits.h"
#include "engine/base/status_macros.h"
#include "engine/base/utf8.h"
#include "engine/data/csv/cells.h"

namespace gpupool::engine {
namespace {

constexpr size_t kShownBytes = 40;
constexpr ptrdiff_t kNamedCategories = 10;
constexpr const char* kLeaveOut =
    "leave the column out by skipped_columns (gpupool: --skip-columns), by its "
    "name or its number from 0";
constexpr const char* kMakeText =
    "name the column in text_columns (gpupool: --text-columns) to take all its "
    "values as categories";

}  // namespace

CsvColumn::CsvColumn(const ColumnPlan& plan, const CsvOptions& options,
                     size_t* name_bytes)
    : options_(&options), name_bytes_(name_bytes) {
  facts_.name = plan.name;
  facts_.label = plan.place >= 0;
  if (!plan.text) return;
  kind_ = Kind::kText;
  indexes_ = std::make_unique<absl::flat_hash_map<std::string, uint32_t>>();
  if (plan.categories == nullptr) return;
  fixed_ = true;
  facts_.categories = *plan.categories;
  facts_.category_rows.resize(facts_.categories.size());
  for (uint32_t i = 0; i < facts_.categories.size(); ++i) {
    indexes_->emplace(facts_.categories[i], i);
  }
}

absl::StatusOr<float> CsvColumn::Take(std::string_view cell) {
  if (IsMissing(cell)) {
    return TakeMissing([cell]() -> std::string {
      if (cell.empty()) return "the cell is empty";
      return absl::StrCat("the cell is missing (", QuotedCell(cell), ")");
    });
  }
  if (kind_ == Kind::kUnknown) RETURN_IF_ERROR(Decide(cell));
  if (kind_ == Kind::kText) return TakeText(cell);
  const std::optional<float> number = TakeNumber(cell);
  if (!number) return NoNumber(cell);
  return *number;
}

absl::Status CsvColumn::Decide(std::string_view cell) {
  if (ParseNumber(cell)) {
    kind_ = Kind::kNumber;
    return absl::OkStatus();
  }
  // A column of numbers with separators would become a category for each.
  if (LooksLikeNumber(cell)) return NoNumber(cell);
  BecomeText();
  return absl::OkStatus();
}

void CsvColumn::BecomeText() {
  kind_ = Kind::kText;
  guessed_ = true;
  indexes_ = std::make_unique<absl::flat_hash_map<std::string, uint32_t>>();
}

absl::StatusOr<float> CsvColumn::TakeTyped(double number,
                                           std::string_view text) {
  if (kind_ == Kind::kUnknown) kind_ = Kind::kNumber;
  if (kind_ == Kind::kText && !guessed_) return TakeText(text);
  if (kind_ == Kind::kText) {
    return absl::InvalidArgumentError(
        absl::StrCat(std::string(CutUtf8(text, kShownBytes)),
                     " is a number, but the values before it are ",
                     "strings; write it in quotes, or ", kMakeText));
  }
  const std::optional<float> taken = TakeNumber(number);
  if (taken) return *taken;
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(CutUtf8(text, kShownBytes)),
      " is outside the range of a 32-bit float, -3.4e38 to 3.4e38; scale the "
      "numbers, or ",
      kLeaveOut));
}

absl::StatusOr<float> CsvColumn::TakeString(std::string_view text) {
  if (kind_ == Kind::kUnknown) BecomeText();
  if (kind_ == Kind::kText) return TakeText(text);
  return absl::InvalidArgumentError(absl::StrCat(
      QuotedCell(text),
      " is a string, but the values before it are numbers; write a number, "
      "without quotes, or ",
      kMakeText));
}

absl::Status CsvColumn::NoNumber(std::string_view cell) const {
  const bool word = kind_ == Kind::kNumber && !LooksLikeNumber(cell);
  return absl::InvalidArgumentError(absl::StrCat(
      QuotedCell(cell), " is not a finite number",
      word ? ", as the cells before it are; correct it, or"
           : "; write it with digits and a decimal point only, or",
      " name the column, or its number from 0, in text_columns (gpupool: "
      "--text-columns) to take its cells as categories"));
}

absl::StatusOr<float> CsvColumn::TakeMissing(
    absl::FunctionRef<std::string()> what) {
  const bool fill = options_->missing == MissingRule::kMean ||
                    options_->missing == MissingRule::kZero;
  if (!fill || facts_.label) {
    return absl::InvalidArgumentError(absl::StrCat(
        what(), facts_.label
                    ? ", and labels are not filled in; correct it, or set "
                      "missing to DROP_ROW (gpupool: --missing drop-row)"
                    : "; correct it, or set missing to MEAN, ZERO or DROP_ROW "
                      "(gpupool: --missing mean|zero|drop-row)"));
  }
  if (learning_) ++facts_.missing;
  if (kind_ == Kind::kText && (fixed_ || !learning_)) return TakeText("");
  if (learning_ || options_->missing == MissingRule::kZero) return 0.0f;
  return static_cast<float>(facts_.sum / static_cast<double>(facts_.numbers));
}

// Keeps the text for AddBytesTo.
absl::StatusOr<float> CsvColumn::TakeBytes(std::string_view cell) {
  if (!IsUtf8(cell)) {
    return absl::InvalidArgumentError(absl::StrCat(
        QuotedCell(cell), " is not UTF-8; save the file as UTF-8"));
  }
  // Zero is the number after the end of a text.
  if (cell.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat(QuotedCell(cell), " has a byte of zero; leave it out"));
  }
  text_ = CutUtf8(cell, options_->text_length);
  return 0.0f;
}

void CsvColumn::AddBytesTo(std::vector<float>& numbers) const {
  const size_t begin = numbers.size();
  numbers.resize(begin + options_->text_length);
  for (size_t i = 0; i < text_.size(); ++i) {
    numbers[begin + i] = static_cast<unsigned char>(text_[i]);
  }
}

absl::StatusOr<float> CsvColumn::TakeText(std::string_view cell) {
  if (bytes()) return TakeBytes(cell);
  const auto found =
      indexes_->find(absl::string_view(cell.data(), cell.size()));
  if (found == indexes_->end()) {
    ASSIGN_OR_RETURN(const uint32_t index, AddCategory(cell));
    return static_cast<float>(index);
  }
  if (learning_) ++facts_.category_rows[found->second];
  return static_cast<float>(found->second);
}

absl::StatusOr<uint32_t> CsvColumn::AddCategory(std::string_view cell) {
  if (fixed_) {
    return absl::InvalidArgumentError(absl::StrCat(
        cell.empty() ? "a missing cell" : QuotedCell(cell),
        " is not among the ", facts_.categories.size(),
        " categories that layout.categories gives (gpupool: --like): ",
        QuotedCells(facts_.categories, kNamedCategories)));
  }
  RETURN_IF_ERROR(CheckFirstLine(cell));
  if (!IsUtf8(cell)) {
    return absl::InvalidArgumentError(absl::StrCat(
        QuotedCell(cell), " is not UTF-8; save the file as UTF-8"));
  }
  if (cell.size() > kMaxCategoryBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(QuotedCell(cell), " has ", cell.size(),
                     " bytes, the limit of a category is ", kMaxCategoryBytes,
                     "; ", kLeaveOut, ", or turn its text into numbers"));
  }
  if (facts_.categories.size() == kMaxCategories) {
    return absl::InvalidArgumentError(absl::StrCat(
        QuotedCell(cell), " would be category ", kMaxCategories + 1,
        " of the column, the limit is ", kMaxCategories, "; ", kLeaveOut,
        ", or turn its text into numbers"));
  }
  *name_bytes_ += cell.size();
  if (*name_bytes_ > kMaxCategoryNames) {
    return absl::InvalidArgumentError(
        absl::StrCat("the names of all categories have ", *name_bytes_,
                     " bytes with ", QuotedCell(cell), ", the limit is ",
                     kMaxCategoryNames, "; ", kLeaveOut));
  }
  const auto index = static_cast<uint32_t>(facts_.categories.size());
  indexes_->emplace(std::string(cell), index);
  facts_.categories.emplace_back(cell);
  facts_.category_rows.push_back(1);
  return index;
}

// Refuses a number below a text in the first line of a file without a header:
// the text is then probably a column's name.
absl::Status CsvColumn::CheckFirstLine(std::string_view cell) const {
  const bool second =
      facts_.categories.size() == 1 && facts_.category_rows[0] == 1;
  if (options_->has_header || !guessed_ || !second || !ParseNumber(cell)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      QuotedCell(cell), " is a number below the text ",
      QuotedCell(facts_.categories[0]),
      "; if the first line holds column names, set has_header (gpupool: "
      "--header), else name the column in text_columns (gpupool: "
      "--text-columns)"));
}

void CsvColumn::AddFirstValue(std::string_view cell) {
  facts_.first_values.emplace_back(CutUtf8(cell, kShownBytes));
}

absl::Status CsvColumn::EndSurvey() {
  if (kind_ == Kind::kUnknown) {
    return absl::InvalidArgumentError(
        absl::StrCat("no row has a value; ", kLeaveOut));
  }
  // Added last, so that other indexes do not depend on missing cells.
  if (kind_ == Kind::kText && !bytes() && !fixed_ && facts_.missing > 0) {
    RETURN_IF_ERROR(AddCategory("").status());
    facts_.category_rows.back() = facts_.missing;
  }
  learning_ = false;
  return absl::OkStatus();
}

CsvColumnFacts CsvColumn::TakeFacts() {
  facts_.text = kind_ == Kind::kText;
  return std::move(facts_);
}

}  // namespace gpupool::engine
