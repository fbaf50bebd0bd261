#include "engine/data/json/line.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/utf8.h"

namespace gpupool::engine {
namespace {

using Json = nlohmann::json;

// Whole numbers up to here are exact as doubles.
constexpr double kMostExact = 9007199254740992.0;  // 2^53
constexpr size_t kNearBytes = 60;
constexpr ptrdiff_t kMostKeys = 20;
// nlohmann's id of a number that is too large for a double.
constexpr int kNumberOverflow = 406;
constexpr const char* kOneObject =
    "write each row as one object on a line of its own, such as {\"x\": 1.5, "
    "\"y\": 0}";

// Returns what to do about JSON that goes wrong where `after` begins.
std::string SyntaxRemedy(std::string_view before, std::string_view after) {
  const absl::string_view word(after.data(), after.size());
  const auto begins = [word](absl::string_view with) {
    return absl::StartsWith(word, with);
  };
  // A small n might begin null, so it is a fault only behind it.
  const bool nan = !before.empty() && before.back() == 'n' && begins("an");
  if (nan || begins("NaN") || begins("Inf") || begins("inf")) {
    return "write null where a number is missing";
  }
  if (begins("None") || begins("True") || begins("False")) {
    return "write null, true and false, as json.dumps of Python does";
  }
  if (begins("'")) return "write keys and strings in double quotes";
  return kOneObject;
}

// Returns whether a string of the line has half of a pair of surrogates.
bool IsLoneSurrogate(absl::string_view error) {
  // The rest of the error quotes the line.
  return absl::StrContains(error.substr(0, error.find("; last read")),
                           "invalid string: surrogate");
}

}  // namespace

std::string NumberText(double number) {
  if (number == std::floor(number) && std::abs(number) <= kMostExact) {
    return absl::StrCat(static_cast<int64_t>(number));
  }
  std::array<char, 32> text;  // the longest text has 24 characters
  const auto written =
      std::to_chars(text.data(), text.data() + text.size(), number);
  return std::string(text.data(), written.ptr);
}

std::string NumberText(const JsonValue& value) {
  return value.text.empty() ? NumberText(value.number)
                            : std::string(value.text);
}

// Takes the parser's events. Every handler returns false to end the parse;
// status() then has the reason.
class JsonLineParser::Events final : public nlohmann::json_sax<Json> {
 public:
  Events(JsonLineParser& parser, std::string_view line)
      : parser_(parser), line_(line), learning_(parser.keys_.empty()) {}

  const absl::Status& status() const { return status_; }

  bool null() override {
    if (InArray()) return AddElement(std::numeric_limits<double>::quiet_NaN());
    return Place({.kind = JsonValue::Kind::kNull});
  }
  bool boolean(bool value) override {
    return Number(value ? 1 : 0, value ? "true" : "false");
  }
  bool number_integer(number_integer_t value) override {
    // Numbers without a sign go to number_unsigned, so 0 is written as -0.
    return Whole(value == 0 ? -0.0 : static_cast<double>(value), value);
  }
  bool number_unsigned(number_unsigned_t value) override {
    return Whole(static_cast<double>(value), value);
  }
  bool number_float(number_float_t value, const string_t& text) override {
    if (InArray()) return AddElement(value);
    return Number(value, Keep(text));
  }
  bool string(string_t& value) override {
    if (InArray()) {
      Refuse("an array that holds a string", Keep(value));
      return true;
    }
    return Place({.kind = JsonValue::Kind::kText, .text = Keep(value)});
  }
  bool binary(binary_t&) override { return Fail("has binary values"); }

  bool start_object(size_t) override {
    if (depth_ == 1) Refuse("an object", {});
    if (InArray()) Refuse("an array that holds an object", {});
    return Open();
  }
  bool end_object() override { return Close(); }
  bool key(string_t& name) override {
    if (depth_ > 1) return true;
    return learning_ ? LearnKey(name) : FindKey(name);
  }
  bool start_array(size_t) override {
    if (depth_ == 0) return NoObject();
    if (InArray()) Refuse("an array that holds an array", {});
    if (depth_ == 1) {
      parser_.values_[key_] = {.kind = JsonValue::Kind::kArray,
                               .first = parser_.elements_.size()};
    }
    return Open();
  }
  bool end_array() override { return Close(); }

  bool parse_error(size_t position, const std::string& token,
                   const Json::exception& error) override;

 private:
  // Returns whether the next value is an element of an array of numbers.
  bool InArray() const {
    return depth_ == 2 && parser_.values_[key_].kind == JsonValue::Kind::kArray;
  }
  bool Open() {
    if (++depth_ <= kMaxJsonDepth + 1) return true;
    return Fail(absl::StrCat(
        KeyText(), "holds arrays or objects in each other, more than ",
        kMaxJsonDepth,
        " deep; write its numbers as one array, or leave it out of the file"));
  }
  bool Close() {
    --depth_;
    return true;
  }

  bool Place(const JsonValue& value) {
    if (depth_ == 0) return NoObject();
    if (depth_ == 1) parser_.values_[key_] = value;
    return true;  // deeper values belong to one that is refused
  }
  bool Number(double number, std::string_view text) {
    if (InArray()) return AddElement(number);
    return Place(
        {.kind = JsonValue::Kind::kNumber, .number = number, .text = text});
  }
  template <typename Integer>
  bool Whole(double number, Integer value) {
    if (InArray() || std::abs(number) < kMostExact) return Number(number, {});
    return Number(number, Keep(absl::StrCat(value)));
  }
  bool AddElement(double number);
  // Makes the value of the key one that no table can take.
  void Refuse(const char* what, std::string_view text) {
    parser_.values_[key_] = {
        .kind = JsonValue::Kind::kOther, .text = text, .what = what};
  }

  bool LearnKey(const std::string& name);
  bool FindKey(const std::string& name);

  // Keeps a text until the next line. JSON writes a text in at least as many
  // bytes, so it fits what Parse reserves.
  std::string_view Keep(const std::string& text) {
    const size_t begin = parser_.text_.size();
    parser_.text_.append(text);
    return std::string_view(parser_.text_).substr(begin);
  }

  std::string KeyText() const {
    if (!in_key_) return "";
    return absl::StrCat("key ", QuotedCell(parser_.keys_[key_]), ": ");
  }
  bool Twice(const std::string& name) {
    return Fail(absl::StrCat("has key ", QuotedCell(name),
                             " twice; give each key one value"));
  }
  bool NoObject() {
    return Fail(absl::StrCat("is not a JSON object but ",
                             QuotedCell(Trimmed(line_)), "; ", kOneObject,
                             Trimmed(line_).front() == '['
                                 ? " (jq -c '.[]' makes them of an array)"
                                 : ""));
  }
  bool Fail(absl::string_view text) {
    status_ = absl::InvalidArgumentError(text);
    return false;
  }

  JsonLineParser& parser_;
  const std::string_view line_;
  const bool learning_;  // the line is the first one
  absl::Status status_;
  size_t depth_ = 0;     // open objects and arrays; 1 is the line's object
  bool in_key_ = false;  // a key was read
  size_t key_ = 0;       // the latest
};

bool JsonLineParser::Events::AddElement(double number) {
  if (parser_.elements_.size() == kMaxJsonValues) {
    return Fail(absl::StrCat(
        KeyText(), "the arrays of the line have more than ", kMaxJsonValues,
        " numbers, which is the limit; upload wider rows as NPY files or an "
        "NPZ archive"));
  }
  parser_.elements_.push_back(number);
  ++parser_.values_[key_].count;
  return true;
}

bool JsonLineParser::Events::LearnKey(const std::string& name) {
  if (name.empty() || name.size() > kMaxJsonKeyBytes) {
    return Fail(absl::StrCat("has key ", QuotedCell(name), " of ", name.size(),
                             " bytes; 1 to ", kMaxJsonKeyBytes,
                             " are possible, so give it another name"));
  }
  if (parser_.keys_.size() == kMaxJsonValues) {
    return Fail(absl::StrCat(
        "has more than ", kMaxJsonValues,
        " keys, which is the limit; write numbers as arrays, or upload wider "
        "rows as NPY files or an NPZ archive"));
  }
  key_ = parser_.keys_.size();
  if (!parser_.places_.emplace(name, key_).second) return Twice(name);
  parser_.keys_.push_back(name);
  parser_.values_.emplace_back();
  parser_.present_.push_back(key_);
  in_key_ = true;
  return true;
}

bool JsonLineParser::Events::FindKey(const std::string& name) {
  // Most files have the same order in all lines.
  const size_t next = in_key_ ? key_ + 1 : 0;
  if (next < parser_.keys_.size() && parser_.keys_[next] == name) {
    key_ = next;
  } else {
    const auto found = parser_.places_.find(name);
    if (found == parser_.places_.end()) {
      return Fail(absl::StrCat(
          "has key ", QuotedCell(name),
          ", which the first object does not have; its keys are ",
          QuotedCells(parser_.keys_, kMostKeys),
          "; give all objects the same keys, with null for a missing value"));
    }
    key_ = found->second;
  }
  in_key_ = true;
  if (parser_.values_[key_].kind != JsonValue::Kind::kAbsent) {
    return Twice(name);
  }
  parser_.present_.push_back(key_);
  return true;
}

bool JsonLineParser::Events::parse_error(size_t position,
                                         const std::string& token,
                                         const Json::exception& error) {
  if (error.id == kNumberOverflow) {
    return Fail(absl::StrCat(KeyText(), std::string(CutUtf8(token, kNearBytes)),
                             " is outside the range of a number, -3.4e38 to "
                             "3.4e38; scale the numbers, or take the key out "
                             "of the file"));
  }
  if (!IsUtf8(line_)) return Fail("is not UTF-8; save the file as UTF-8");
  const std::string after_key =
      in_key_ ? absl::StrCat(", after key ", QuotedCell(parser_.keys_[key_]))
              : "";
  // The position is behind the token, and one more at the end of the line.
  if (position > line_.size()) {
    return Fail(absl::StrCat("ends within its object", after_key, "; ",
                             kOneObject,
                             " (jq -c . makes one line of each object)"));
  }
  const size_t fault = position - std::min<size_t>(position, 1);
  const std::string shown =
      QuotedCell(CutUtf8(line_.substr(fault), kNearBytes));
  if (IsLoneSurrogate(error.what())) {
    return Fail(absl::StrCat(
        "is not JSON near byte ", fault + 1, after_key,
        ", because a \\u escape is half of a pair of surrogates; write both "
        "halves, such as \\ud83d\\ude00, or \\ufffd in its place"));
  }
  if (depth_ == 0 && in_key_) {
    return Fail(absl::StrCat("goes on after its object, at byte ", fault + 1,
                             ", ", shown, "; ", kOneObject));
  }
  return Fail(absl::StrCat(
      "is not JSON at byte ", fault + 1, after_key, ", at ", shown, "; ",
      SyntaxRemedy(line_.substr(0, fault), line_.substr(fault))));
}

absl::Status JsonLineParser::Parse(std::string_view line) {
  // nlohmann's parser takes it for the end.
  if (line.find('\0') != std::string_view::npos) {
    return absl::InvalidArgumentError(
        absl::StrCat("holds a byte of 0 at ", line.find('\0') + 1,
                     "; is this a file of JSON lines in UTF-8?"));
  }
  // Not all values: a short line would cost as much as the first one.
  for (const size_t key : present_) values_[key] = {};
  present_.clear();
  elements_.clear();
  text_.clear();
  text_.reserve(line.size());
  Events events(*this, line);
  if (!Json::sax_parse(line.data(), line.data() + line.size(), &events)) {
    return events.status();
  }
  if (!keys_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("holds an object without keys; ", kOneObject));
}

}  // namespace gpupool::engine
