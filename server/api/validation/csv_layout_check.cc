#include "server/api/validation/csv_layout_check.h"

#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/category_limits.h"
#include "engine/base/status_macros.h"
#include "server/api/validation/convert.h"
#include "server/api/validation/image_layout_check.h"

namespace gpupool::server {
namespace {

constexpr int kMaxNamedColumns = 65536;
constexpr size_t kMaxColumnNameBytes = 255;

using Names = google::protobuf::RepeatedPtrField<std::string>;

absl::Status CheckColumnName(absl::string_view field, const std::string& name) {
  if (!name.empty() && name.size() <= kMaxColumnNameBytes) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(field, ": ", Quoted(name), " has ", name.size(),
                   " bytes; 1 to ", kMaxColumnNameBytes, " are possible"));
}

absl::Status CheckColumnCount(absl::string_view field, int columns) {
  if (columns <= kMaxNamedColumns) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      field, " names ", columns, " columns, the limit is ", kMaxNamedColumns));
}

absl::Status CheckColumnNames(absl::string_view field, const Names& names) {
  RETURN_IF_ERROR(CheckColumnCount(field, names.size()));
  for (const std::string& name : names) {
    RETURN_IF_ERROR(CheckColumnName(field, name));
  }
  return absl::OkStatus();
}

// Checks the categories of one column and adds the bytes of their names.
absl::Status CheckCategories(const v1::ColumnCategories& column,
                             size_t* name_bytes) {
  const std::string field =
      absl::StrCat("layout.categories of column ", Quoted(column.column()));
  const auto count = static_cast<size_t>(column.values_size());
  if (count == 0 || count > engine::kMaxCategories) {
    return absl::InvalidArgumentError(
        absl::StrCat(field, " has ", count, " values; 1 to ",
                     engine::kMaxCategories, " are possible"));
  }
  absl::flat_hash_set<absl::string_view> seen;
  for (const std::string& value : column.values()) {
    if (value.size() > engine::kMaxCategoryBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": ", Quoted(value), " has ", value.size(),
                       " bytes, the limit is ", engine::kMaxCategoryBytes));
    }
    if (!seen.insert(value).second) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, " has ", Quoted(value), " twice"));
    }
    *name_bytes += value.size();
  }
  return absl::OkStatus();
}

absl::Status CheckAllCategories(const v1::DatasetLayout& layout) {
  RETURN_IF_ERROR(
      CheckColumnCount("layout.categories", layout.categories_size()));
  absl::flat_hash_set<absl::string_view> columns;
  size_t name_bytes = 0;
  for (const v1::ColumnCategories& column : layout.categories()) {
    RETURN_IF_ERROR(
        CheckColumnName("layout.categories.column", column.column()));
    if (!columns.insert(column.column()).second) {
      return absl::InvalidArgumentError(absl::StrCat(
          "layout.categories has column ", Quoted(column.column()), " twice"));
    }
    RETURN_IF_ERROR(CheckCategories(column, &name_bytes));
  }
  if (name_bytes <= engine::kMaxCategoryNames) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "layout.categories has names of ", name_bytes, " bytes, the limit is ",
      engine::kMaxCategoryNames, " for a dataset"));
}

}  // namespace

absl::Status CheckCsvLayout(const v1::DatasetLayout& layout) {
  const bool used =
      layout.missing() != v1::DatasetLayout::MISSING_UNSPECIFIED ||
      layout.text() != v1::DatasetLayout::TEXT_UNSPECIFIED ||
      !layout.text_columns().empty() || !layout.skipped_columns().empty();
  if (!used && layout.categories().empty()) return absl::OkStatus();
  // Categories of images and recordings are the names of their classes, those
  // of text its tokens.
  if (!used && (HasArchives(layout.format()) || layout.format() == v1::TEXT)) {
    return CheckAllCategories(layout);
  }
  if (layout.format() != v1::CSV) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layout.missing, text, text_columns and skipped_columns are for CSV, "
        "and categories for CSV, IMAGES, AUDIO and TEXT, the format is ",
        v1::DatasetFormat_Name(layout.format())));
  }
  if (!v1::DatasetLayout::Missing_IsValid(layout.missing())) {
    return absl::InvalidArgumentError(
        absl::StrCat("layout.missing has the unknown value ",
                     static_cast<int>(layout.missing())));
  }
  if (!v1::DatasetLayout::Text_IsValid(layout.text())) {
    return absl::InvalidArgumentError(absl::StrCat(
        "layout.text has the unknown value ", static_cast<int>(layout.text())));
  }
  RETURN_IF_ERROR(
      CheckColumnNames("layout.text_columns", layout.text_columns()));
  RETURN_IF_ERROR(
      CheckColumnNames("layout.skipped_columns", layout.skipped_columns()));
  return CheckAllCategories(layout);
}

}  // namespace gpupool::server
