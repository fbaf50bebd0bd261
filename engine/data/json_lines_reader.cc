#include "engine/data/json_lines_reader.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/counted.h"
#include "engine/base/status_macros.h"
#include "engine/data/bytes/byte_stream.h"
#include "engine/data/csv/cells.h"
#include "engine/data/csv/column.h"
#include "engine/data/json/keys.h"
#include "engine/data/json/line.h"
#include "engine/data/row_lines_reader.h"

namespace gpupool::engine {
namespace {

using Kind = JsonValue::Kind;

// Bytes that are unpacked at a time to find the first object.
constexpr size_t kFrontBytes = 4096;
constexpr std::string_view kSpace = " \t\r\n";
// The parser takes a byte order mark in front of each object.
constexpr std::string_view kSpaceAndMark = " \t\r\n\xEF\xBB\xBF";

CsvOptions WithKeys(CsvOptions options) {
  options.has_header = true;
  options.json_lines = true;
  return options;
}

bool IsMissingValue(const JsonValue& value) {
  return value.kind == Kind::kAbsent || value.kind == Kind::kNull ||
         (value.kind == Kind::kText && value.text.empty());
}

const char* MissingText(const JsonValue& value) {
  if (value.kind == Kind::kAbsent) return "the object does not have the key";
  return value.kind == Kind::kNull ? "the value is null"
                                   : "the string is empty";
}

// Takes the values of objects to a table.
class JsonLinesParser final : public RowLinesReader {
 public:
  JsonLinesParser(const CsvOptions& options, const ReadLimits& limits)
      : RowLinesReader(WithKeys(options), limits, LineForm::kJson) {}

 private:
  absl::Status AddLine(std::string_view line) override;
  // Returns the key of the column, and its place in an array.
  std::string PlaceOf(size_t column) const override;
  absl::Status TakeColumns();
  absl::Status TakeKey(size_t key);
  absl::Status TakeScalar(size_t column, const JsonValue& value);
  absl::Status TakeArray(size_t key, const JsonValue& value);
  // Takes a number. `text` returns it as it is written.
  absl::Status TakeNumber(size_t column, double value,
                          absl::FunctionRef<std::string()> text);
  absl::Status TakeMissing(size_t column, const char* what);
  // Puts the number that a column made of a value into the row.
  absl::Status Put(size_t column, const absl::StatusOr<float>& number);
  bool HasMissing() const;

  JsonLineParser parser_;
  JsonColumns columns_;
};

absl::Status JsonLinesParser::AddLine(std::string_view line) {
  const absl::Status parsed = parser_.Parse(line);
  if (!parsed.ok()) return Error(parsed.message());
  if (builder_.columns() == 0) RETURN_IF_ERROR(TakeColumns());
  if (builder_.options().missing == MissingRule::kDropRow && HasMissing()) {
    builder_.DropRow();
    return absl::OkStatus();
  }
  builder_.BeginRow();
  for (size_t key = 0; key < columns_.keys.size(); ++key) {
    RETURN_IF_ERROR(TakeKey(key));
  }
  return EndRow();
}

// Takes the columns from the first object.
absl::Status JsonLinesParser::TakeColumns() {
  auto columns =
      PlanJsonColumns(builder_.options(), parser_.keys(), parser_.values());
  if (!columns.ok()) return Error(columns.status().message());
  columns_ = *std::move(columns);
  builder_.SetColumns(std::move(columns_.plans), columns_.label_width);
  return absl::OkStatus();
}

absl::Status JsonLinesParser::TakeKey(size_t key) {
  const auto [first, count, array] = columns_.keys[key];
  const JsonValue& value = parser_.values()[key];
  if (builder_.skipped(first)) return absl::OkStatus();
  if (value.kind == Kind::kOther) {
    return Error(absl::StrCat(
        "key ", QuotedCell(parser_.keys()[key]), ": the value is ", value.what,
        value.text.empty() ? "" : absl::StrCat(", ", QuotedCell(value.text)),
        "; write its values as keys of their own, an array of numbers as one "
        "array, or leave the key out by skipped_columns (gpupool: "
        "--skip-columns)"));
  }
  if (IsMissingValue(value)) {
    for (size_t i = 0; i < count; ++i) {
      RETURN_IF_ERROR(TakeMissing(first + i, MissingText(value)));
    }
    return absl::OkStatus();
  }
  if (array || value.kind == Kind::kArray) return TakeArray(key, value);
  return TakeScalar(first, value);
}

absl::Status JsonLinesParser::TakeScalar(size_t column,
                                         const JsonValue& value) {
  if (value.kind != Kind::kText) {
    return TakeNumber(column, value.number,
                      [&value] { return NumberText(value); });
  }
  CsvColumn& taker = builder_.column(column);
  const absl::StatusOr<float> number = taker.TakeString(value.text);
  if (number.ok()) taker.Show(value.text);
  return Put(column, number);
}

absl::Status JsonLinesParser::TakeNumber(
    size_t column, double value, absl::FunctionRef<std::string()> text) {
  CsvColumn& taker = builder_.column(column);
  const std::optional<float> known = taker.TakeNumber(value);
  // The text is made only where it is needed, since most values need none.
  if (known && !taker.shows()) {
    builder_.Add(column, *known);
    return absl::OkStatus();
  }
  const std::string written = text();
  const absl::StatusOr<float> number =
      known ? *known : taker.TakeTyped(value, written);
  if (number.ok()) taker.Show(written);
  return Put(column, number);
}

absl::Status JsonLinesParser::TakeArray(size_t key, const JsonValue& value) {
  const auto [first, count, array] = columns_.keys[key];
  const std::string name = QuotedCell(parser_.keys()[key]);
  if (!array) {
    return Error(
        absl::StrCat("key ", name, ": the value is an array of ",
                     Counted(value.count, "number"),
                     ", where the first object has none; "
                     "begin the file with an object that has an array there"));
  }
  if (value.kind != Kind::kArray) {
    return Error(absl::StrCat(
        "key ", name, ": the value is ",
        value.kind == Kind::kText ? QuotedCell(value.text) : NumberText(value),
        ", where the first object has an array; write an array of ",
        Counted(count, "number"), ", or null if it is missing"));
  }
  if (value.count != count) {
    return Error(absl::StrCat("key ", name, ": the array has ",
                              Counted(value.count, "number"),
                              " where that of the first object has ", count,
                              "; all arrays of a key have one length"));
  }
  for (size_t i = 0; i < count; ++i) {
    const double element = parser_.elements(value)[i];
    RETURN_IF_ERROR(std::isnan(element)
                        ? TakeMissing(first + i, "the number is null")
                        : TakeNumber(first + i, element, [element] {
                            return NumberText(element);
                          }));
  }
  return absl::OkStatus();
}

absl::Status JsonLinesParser::TakeMissing(size_t column, const char* what) {
  CsvColumn& taker = builder_.column(column);
  const absl::StatusOr<float> number =
      taker.TakeMissing([what] { return std::string(what); });
  if (number.ok()) taker.Show("null");
  return Put(column, number);
}

absl::Status JsonLinesParser::Put(size_t column,
                                  const absl::StatusOr<float>& number) {
  if (!number.ok()) return ErrorAt(column, number.status().message());
  builder_.Add(column, *number);
  return absl::OkStatus();
}

bool JsonLinesParser::HasMissing() const {
  for (size_t key = 0; key < columns_.keys.size(); ++key) {
    if (builder_.skipped(columns_.keys[key].first)) continue;
    const JsonValue& value = parser_.values()[key];
    if (IsMissingValue(value)) return true;
    if (value.kind != Kind::kArray) continue;
    const auto elements = parser_.elements(value);
    if (std::any_of(elements.begin(), elements.end(),
                    [](double element) { return std::isnan(element); })) {
      return true;
    }
  }
  return false;
}

std::string JsonLinesParser::PlaceOf(size_t column) const {
  const size_t key = KeyOfColumn(columns_, column);
  const JsonKeyColumns& place = columns_.keys[key];
  return absl::StrCat(
      "key ", QuotedCell(parser_.keys()[key]),
      place.array ? absl::StrCat("[", column - place.first, "]") : "");
}

}  // namespace

absl::StatusOr<Table> ReadJsonLines(std::string_view bytes,
                                    const CsvOptions& options,
                                    const ReadLimits& limits) {
  return JsonLinesParser(options, limits).Read(bytes);
}

bool BeginsWithObject(std::string_view bytes) {
  const std::unique_ptr<ByteStream> stream = OpenByteStream(bytes);
  std::string chunk(kFrontBytes, '\0');
  bool in_object = false;
  for (;;) {
    const absl::StatusOr<size_t> count = stream->Read(absl::MakeSpan(chunk));
    if (!count.ok() || *count == 0) return false;
    for (const char c : std::string_view(chunk).substr(0, *count)) {
      const std::string_view skipped = in_object ? kSpace : kSpaceAndMark;
      if (skipped.find(c) != std::string_view::npos) continue;
      if (in_object) return c == '"' || c == '}';
      if (c != '{') return false;
      in_object = true;
    }
  }
}

}  // namespace gpupool::engine
