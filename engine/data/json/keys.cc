#include "engine/data/json/keys.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/data/csv/cells.h"

namespace gpupool::engine {
namespace {

absl::Status KeyError(const std::string& key, absl::string_view what) {
  return absl::InvalidArgumentError(
      absl::StrCat("key ", QuotedCell(key), ": ", what));
}

// Returns the columns of one key, without its first column.
absl::StatusOr<JsonKeyColumns> ColumnsOfKey(const ColumnPlan& plan,
                                            const std::string& key,
                                            const JsonValue& value) {
  const bool skipped = plan.place == kSkippedColumn;
  if (skipped || value.kind != JsonValue::Kind::kArray) return JsonKeyColumns{};
  if (value.count == 0) {
    return KeyError(key,
                    "the array is empty; give it at least one number, or leave "
                    "the key out by skipped_columns (gpupool: --skip-columns)");
  }
  if (plan.text) {
    return KeyError(key,
                    "text_columns or categories (gpupool: --text-columns, "
                    "--like) name it, but it holds an array; arrays hold "
                    "numbers, so write each category as a key of its own");
  }
  return JsonKeyColumns{.count = value.count, .array = true};
}

// Checks the columns before any is made. A short line may ask for a long name
// a million times.
absl::Status CheckColumns(absl::Span<const std::string> keys,
                          const JsonColumns& columns, size_t count) {
  if (count > kMaxCsvColumns) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", count, " numbers in its keys and arrays, the limit is ",
        kMaxCsvColumns, "; upload wider rows as NPY files or an NPZ archive"));
  }
  uint64_t bytes = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    if (!columns.keys[i].array) continue;
    bytes += uint64_t{columns.keys[i].count} * keys[i].size();
    if (bytes <= kMaxJsonNameBytes) continue;
    return KeyError(
        keys[i],
        absl::StrCat("the keys in the names of all columns of arrays have more "
                     "than ",
                     kMaxJsonNameBytes, " bytes; give the key a shorter name"));
  }
  return absl::OkStatus();
}

// Returns the plan of one of the columns of a key with an array. `place` is
// that of the key's first column.
ColumnPlan ElementPlan(const ColumnPlan& key, int32_t place, size_t element) {
  const bool label = key.place >= 0;
  return {.name = absl::StrCat(key.name, "[", element, "]"),
          .place = label ? place + static_cast<int32_t>(element) : key.place};
}

// Returns the first place of each key in the label, by the place of the key.
std::vector<uint64_t> LabelPlaces(const std::vector<ColumnPlan>& plans,
                                  JsonColumns& columns, uint64_t labels) {
  std::vector<uint64_t> places(labels);
  for (size_t i = 0; i < plans.size(); ++i) {
    if (plans[i].place < 0) continue;
    places[static_cast<size_t>(plans[i].place)] = columns.keys[i].count;
  }
  for (uint64_t& place : places) {
    columns.label_width += place;
    place = columns.label_width - place;
  }
  return places;
}

}  // namespace

absl::StatusOr<JsonColumns> PlanJsonColumns(
    const CsvOptions& options, absl::Span<const std::string> keys,
    absl::Span<const JsonValue> values) {
  ASSIGN_OR_RETURN(std::vector<ColumnPlan> plans,
                   PlanColumns(options, keys, keys.size()));
  JsonColumns columns;
  size_t count = 0;
  for (size_t i = 0; i < keys.size(); ++i) {
    ASSIGN_OR_RETURN(JsonKeyColumns key,
                     ColumnsOfKey(plans[i], keys[i], values[i]));
    key.first = count;
    count += key.count;
    columns.keys.push_back(key);
  }
  RETURN_IF_ERROR(CheckColumns(keys, columns, count));
  const std::vector<uint64_t> places =
      LabelPlaces(plans, columns, LabelWidth(options));
  columns.plans.reserve(count);
  for (size_t i = 0; i < keys.size(); ++i) {
    ColumnPlan& plan = plans[i];
    const int32_t place =
        plan.place < 0
            ? plan.place
            : static_cast<int32_t>(places[static_cast<size_t>(plan.place)]);
    if (!columns.keys[i].array) {
      plan.place = place;
      columns.plans.push_back(std::move(plan));
      continue;
    }
    for (size_t element = 0; element < columns.keys[i].count; ++element) {
      columns.plans.push_back(ElementPlan(plan, place, element));
    }
  }
  return columns;
}

size_t KeyOfColumn(const JsonColumns& columns, size_t column) {
  const auto after =
      std::upper_bound(columns.keys.begin(), columns.keys.end(), column,
                       [](size_t wanted, const JsonKeyColumns& key) {
                         return wanted < key.first;
                       });
  return static_cast<size_t>(after - columns.keys.begin()) - 1;
}

}  // namespace gpupool::engine
