#include "engine/data/csv/columns.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/base/utf8.h"
#include "engine/data/csv/cells.h"

namespace gpupool::engine {
namespace {

constexpr ptrdiff_t kMostNames = 20;
constexpr size_t kMaxNameBytes = 255;

// The columns of a file.
class Existing {
 public:
  Existing(absl::Span<const std::string> header, uint64_t width,
           bool json_lines)
      : width_(width),
        json_lines_(json_lines),
        first_names_(QuotedCells(header, kMostNames)) {
    for (uint64_t i = 0; i < std::min<uint64_t>(width, header.size()); ++i) {
      places_.emplace(header[i], i);
    }
  }

  uint64_t width() const { return width_; }
  bool json_lines() const { return json_lines_; }
  // Returns the first names of the header for messages, or nothing.
  const std::string& first_names() const { return first_names_; }
  // Returns the position of the first column with the name.
  std::optional<uint64_t> Find(const std::string& name) const {
    const auto found = places_.find(name);
    if (found == places_.end()) return std::nullopt;
    return found->second;
  }

 private:
  uint64_t width_;
  bool json_lines_;
  std::string first_names_;
  absl::flat_hash_map<absl::string_view, uint64_t> places_;
};

// Returns the position of a numbered column. Python's rule: -1 is the last one.
absl::StatusOr<uint64_t> ColumnByNumber(const std::string& what, int64_t column,
                                        const Existing& existing) {
  const auto limit = static_cast<int64_t>(existing.width());
  if (column >= limit || column < -limit) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", limit, " columns, so ", what, " is outside ",
                     -limit, " .. ", limit - 1));
  }
  return static_cast<uint64_t>(column < 0 ? limit + column : column);
}

absl::StatusOr<uint64_t> ColumnByName(const std::string& field,
                                      const std::string& name,
                                      const Existing& existing) {
  const std::optional<uint64_t> found = existing.Find(name);
  if (found) return *found;
  return absl::InvalidArgumentError(absl::StrCat(
      "has no column ", QuotedCell(name), " for ", field,
      existing.json_lines() ? "; the keys of the first object are: "
      : existing.first_names().empty()
          ? "; without a header, columns go by number"
          : "; its header has: ",
      existing.first_names()));
}

// Returns the position of a column that goes by name or else by number.
absl::StatusOr<uint64_t> ColumnOf(const std::string& field,
                                  const std::string& text,
                                  const Existing& existing) {
  const std::optional<uint64_t> named = existing.Find(text);
  if (named) return *named;
  int64_t number;
  if (!absl::SimpleAtoi(text, &number)) {
    return ColumnByName(field, text, existing);
  }
  return ColumnByNumber(absl::StrCat("column ", number, " of ", field), number,
                        existing);
}

// Returns the positions of the label columns.
absl::StatusOr<std::vector<uint64_t>> LabelColumns(const CsvOptions& options,
                                                   const Existing& existing) {
  std::vector<uint64_t> columns;
  for (const std::string& name : options.label_names) {
    ASSIGN_OR_RETURN(const uint64_t column,
                     ColumnByName("label_names", name, existing));
    columns.push_back(column);
  }
  for (int32_t number : options.label_columns) {
    ASSIGN_OR_RETURN(
        const uint64_t column,
        ColumnByNumber(absl::StrCat("column ", number, " of label_columns"),
                       number, existing));
    columns.push_back(column);
  }
  if (!columns.empty()) return columns;
  ASSIGN_OR_RETURN(
      const uint64_t column,
      ColumnByNumber(absl::StrCat("label_column ", options.label_column),
                     options.label_column, existing));
  return std::vector<uint64_t>{column};
}

// Gives the label columns their places.
absl::Status PlaceLabels(const CsvOptions& options, const Existing& existing,
                         std::vector<ColumnPlan>& plans) {
  ASSIGN_OR_RETURN(const std::vector<uint64_t> labels,
                   LabelColumns(options, existing));
  for (size_t i = 0; i < labels.size(); ++i) {
    ColumnPlan& plan = plans[labels[i]];
    if (plan.place != kFeatureColumn) {
      return absl::InvalidArgumentError(
          absl::StrCat("has column ", labels[i],
                       " twice in the label; name each column of it once"));
    }
    plan.place = static_cast<int32_t>(i);
  }
  return absl::OkStatus();
}

absl::Status SkipColumns(const CsvOptions& options, const Existing& existing,
                         std::vector<ColumnPlan>& plans) {
  for (const std::string& text : options.skipped_columns) {
    ASSIGN_OR_RETURN(const uint64_t column,
                     ColumnOf("skipped_columns", text, existing));
    if (plans[column].place >= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("has its label in column ", column,
                       ", which skipped_columns leaves out; name the label's "
                       "column by label_column"));
    }
    plans[column].place = kSkippedColumn;
  }
  return absl::OkStatus();
}

absl::Status MarkText(const CsvOptions& options, const Existing& existing,
                      std::vector<ColumnPlan>& plans) {
  for (const std::string& text : options.text_columns) {
    ASSIGN_OR_RETURN(const uint64_t column,
                     ColumnOf("text_columns", text, existing));
    plans[column].text = true;
  }
  for (const auto& [text, categories] : options.categories) {
    ASSIGN_OR_RETURN(const uint64_t column,
                     ColumnOf("categories", text, existing));
    plans[column].text = true;
    plans[column].categories = &categories;
  }
  return absl::OkStatus();
}

std::string NameOf(uint64_t column, absl::Span<const std::string> header) {
  if (column >= header.size() || header[column].empty() ||
      !IsUtf8(header[column])) {
    return absl::StrCat(column);
  }
  return std::string(CutUtf8(header[column], kMaxNameBytes));
}

// Returns whether an option names a column as the header does.
bool GoByName(const CsvOptions& options, const Existing& existing) {
  const auto named = [&](const std::string& text) {
    return existing.Find(text).has_value();
  };
  const auto any = [&](const std::vector<std::string>& texts) {
    return std::any_of(texts.begin(), texts.end(), named);
  };
  return any(options.label_names) || any(options.text_columns) ||
         any(options.skipped_columns) ||
         std::any_of(options.categories.begin(), options.categories.end(),
                     [&](const auto& column) { return named(column.first); });
}

// Refuses names that may stand above other columns than their own.
absl::Status CheckHeader(const CsvOptions& options, uint64_t names,
                         const Existing& existing) {
  if (!options.whole_header || names == existing.width() ||
      !GoByName(options, existing)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "has ", existing.width(), " columns, but the header has ", names,
      " names; give each column one name, or choose columns by number"));
}

absl::Status CheckWidth(const CsvOptions& options, uint64_t width,
                        uint64_t skipped) {
  const uint64_t labels = LabelWidth(options);
  if (width > kMaxCsvColumns) {
    return absl::InvalidArgumentError(
        absl::StrCat("has ", width, " columns, the limit is ", kMaxCsvColumns,
                     "; upload wider rows as NPY files or an NPZ archive"));
  }
  if (width - skipped > labels) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "has ", width == 1 ? "one column" : absl::StrCat(width, " columns"),
      skipped == 0 ? "" : absl::StrCat(", ", skipped, " of them left out"),
      "; at least one feature and ",
      labels == 1 ? "one label" : absl::StrCat(labels, " label columns"),
      options.json_lines ? ", each a key, are needed"
                         : ", separated by ',', are needed"));
}

}  // namespace

uint64_t LabelWidth(const CsvOptions& options) {
  return std::max<uint64_t>(
      1, options.label_columns.size() + options.label_names.size());
}

absl::StatusOr<std::vector<ColumnPlan>> PlanColumns(
    const CsvOptions& options, absl::Span<const std::string> header,
    uint64_t width) {
  RETURN_IF_ERROR(CheckWidth(options, width, 0));
  const Existing existing(header, width, options.json_lines);
  RETURN_IF_ERROR(CheckHeader(options, header.size(), existing));
  std::vector<ColumnPlan> plans(width);
  for (uint64_t i = 0; i < width; ++i) plans[i].name = NameOf(i, header);
  RETURN_IF_ERROR(PlaceLabels(options, existing, plans));
  RETURN_IF_ERROR(SkipColumns(options, existing, plans));
  RETURN_IF_ERROR(MarkText(options, existing, plans));
  const auto skipped = std::count_if(
      plans.begin(), plans.end(),
      [](const ColumnPlan& plan) { return plan.place == kSkippedColumn; });
  RETURN_IF_ERROR(CheckWidth(options, width, static_cast<uint64_t>(skipped)));
  return plans;
}

}  // namespace gpupool::engine
