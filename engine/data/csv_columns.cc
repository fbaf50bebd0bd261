#include "engine/data/csv_columns.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

constexpr size_t kMostNames = 20;

// Returns the positions of options.label_names in the header.
absl::StatusOr<std::vector<uint64_t>> ColumnsByName(
    const CsvOptions& options, absl::Span<const std::string> header,
    uint64_t width) {
  std::vector<uint64_t> columns;
  for (const std::string& name : options.label_names) {
    const auto found = std::find(header.begin(), header.end(), name);
    const auto at = static_cast<uint64_t>(found - header.begin());
    if (found == header.end() || at >= width) {
      return absl::InvalidArgumentError(
          absl::StrCat("has no column \"", absl::CHexEscape(name),
                       "\" for label_names; ", "its header has: ",
                       absl::CHexEscape(absl::StrJoin(
                           header.subspan(0, kMostNames), ", "))));
    }
    columns.push_back(at);
  }
  return columns;
}

// Returns the positions of the numbered label columns.
absl::StatusOr<std::vector<uint64_t>> ColumnsByNumber(const CsvOptions& options,
                                                      uint64_t width) {
  const bool several = !options.label_columns.empty();
  const std::vector<int32_t> wanted =
      several ? options.label_columns
              : std::vector<int32_t>{options.label_column};
  const auto limit = static_cast<int64_t>(width);
  std::vector<uint64_t> columns;
  for (int64_t column : wanted) {
    // Python's rule: -1 is the last column.
    if (column >= limit || column < -limit) {
      return absl::InvalidArgumentError(absl::StrCat(
          "has ", width, " columns, so ", several ? "column " : "label_column ",
          column, several ? " of label_columns is outside " : " is outside ",
          -limit, " .. ", limit - 1));
    }
    columns.push_back(
        static_cast<uint64_t>(column < 0 ? limit + column : column));
  }
  return columns;
}

}  // namespace

uint64_t LabelWidth(const CsvOptions& options) {
  return std::max<uint64_t>(
      {1, options.label_columns.size(), options.label_names.size()});
}

absl::StatusOr<std::vector<int32_t>> LabelPlaces(
    const CsvOptions& options, absl::Span<const std::string> header,
    uint64_t width) {
  const uint64_t labels = LabelWidth(options);
  if (width <= labels) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", width == 1 ? "one column" : absl::StrCat(width, " columns"),
        "; at least one feature and ",
        labels == 1 ? "one label" : absl::StrCat(labels, " label columns"),
        ", separated by ',', are needed"));
  }
  ASSIGN_OR_RETURN(const std::vector<uint64_t> columns,
                   options.label_names.empty()
                       ? ColumnsByNumber(options, width)
                       : ColumnsByName(options, header, width));
  std::vector<int32_t> places(width, kFeatureColumn);
  for (size_t i = 0; i < columns.size(); ++i) {
    int32_t& place = places[columns[i]];
    if (place != kFeatureColumn) {
      return absl::InvalidArgumentError(
          absl::StrCat("has column ", columns[i],
                       " twice in the label; name each column ", "of it once"));
    }
    place = static_cast<int32_t>(i);
  }
  return places;
}

}  // namespace gpupool::engine
