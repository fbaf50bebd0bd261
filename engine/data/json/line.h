// The values of JSON lines: each line holds one object (RFC 8259), and all
// objects have the keys of the first one.
//
//   line   = object, with each key at most once, in any order
//   value  = null / true / false / number / string / array
//   array  = "[" [ element *( "," element ) ] "]"
//   element = null / true / false / number
//
// Other values are parsed, too, because the key may be left out of the table.
// Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "engine/data/csv/cells.h"

namespace gpupool::engine {

// Keys of an object, and elements of all arrays of a line.
inline constexpr size_t kMaxJsonValues = kMaxCsvColumns;
// Arrays and objects in each other, in the value of a key that is left out.
inline constexpr size_t kMaxJsonDepth = 32;
inline constexpr size_t kMaxJsonKeyBytes = 255;

struct JsonValue {
  enum class Kind : uint8_t { kAbsent, kNull, kNumber, kText, kArray, kOther };
  Kind kind = Kind::kAbsent;
  double number = 0;  // kNumber: its value; true is 1 and false is 0
  // kText: the string. kNumber: as it is written, but empty for whole numbers
  // that `number` holds exactly. kOther: the string that an array holds, if
  // that is the fault.
  std::string_view text;
  const char* what = "";  // kOther: what it is, such as "an object"
  size_t first = 0;       // kArray: its first element
  size_t count = 0;       // kArray: its elements
};

// Returns a number as a text: a value as it is written, a double as the
// shortest text that reads back as the same double.
std::string NumberText(const JsonValue& value);
std::string NumberText(double number);

// Parses lines one after the other.
class JsonLineParser {
 public:
  // Parses a line. INVALID_ARGUMENT when
  // - it is not one JSON object in UTF-8,
  // - a key is there twice, is empty, or is longer than kMaxJsonKeyBytes,
  // - a key is not among those of the first line,
  // - a limit above is exceeded, or
  // - a number does not fit a double.
  // Its text continues "line N ". No line can be parsed after an error.
  absl::Status Parse(std::string_view line);

  // Returns the keys of the first line, in its order.
  const std::vector<std::string>& keys() const { return keys_; }
  // Returns the values of the latest line by key. They are valid until the next
  // call of Parse.
  absl::Span<const JsonValue> values() const { return values_; }
  // Returns the elements of an array of the latest line; NaN stands for null.
  absl::Span<const double> elements(const JsonValue& array) const {
    return absl::MakeConstSpan(elements_).subspan(array.first, array.count);
  }

 private:
  class Events;

  std::vector<std::string> keys_;
  absl::flat_hash_map<std::string, size_t> places_;  // of the keys
  std::vector<JsonValue> values_;
  std::vector<size_t> present_;  // the keys of the latest line
  std::vector<double> elements_;
  std::string text_;  // of the values; as long as the line, so it never moves
};

}  // namespace gpupool::engine
