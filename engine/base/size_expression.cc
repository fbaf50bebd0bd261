#include "engine/base/size_expression.h"

#include <algorithm>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace gpupool::engine {
namespace {

bool StartsName(char c) { return absl::ascii_isalpha(c) || c == '_'; }

bool ContinuesName(char c) {
  return StartsName(c) || absl::ascii_isdigit(c) || c == '.';
}

// Returns the quotient, rounded down. False for a divisor of 0, or when the
// quotient exceeds 63 bits.
bool DivideDown(int64_t a, int64_t b, int64_t* quotient) {
  // The second quotient would be 2^63, which has no int64_t.
  if (b == 0 || (a == INT64_MIN && b == -1)) return false;
  *quotient = a / b;
  if (a % b != 0 && (a < 0) != (b < 0)) --*quotient;
  return true;
}

}  // namespace

// Parses by recursive descent. Appends steps in the order of computation.
class SizeExpressionParser {
 public:
  explicit SizeExpressionParser(absl::string_view text) {
    result_.text_ = std::string(text);
  }

  absl::StatusOr<SizeExpression> Parse() {
    if (result_.text_.size() > kMaxSizeExpressionBytes) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the expression '", absl::string_view(result_.text_).substr(0, 32),
          "...' has ", result_.text_.size(), " bytes; the limit is ",
          kMaxSizeExpressionBytes));
    }
    RETURN_IF_ERROR(ParseSum(0));
    if (Next() != '\0') return Refuse("an operator should stand");
    return std::move(result_);
  }

 private:
  using Kind = SizeExpression::Step::Kind;

  // Returns the next character that is no space, '\0' at the end.
  char Next() {
    while (at_ < result_.text_.size() &&
           absl::ascii_isspace(result_.text_[at_])) {
      ++at_;
    }
    return at_ < result_.text_.size() ? result_.text_[at_] : '\0';
  }

  absl::Status Refuse(absl::string_view wanted) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "in the expression '", result_.text_, "' ", wanted, " at character ",
        at_ + 1, "; sizes are added (+), subtracted (-), multiplied (*) and ",
        "divided (//), as in \"past + sequence\""));
  }

  absl::Status ParseSum(int depth) {
    if (depth > kMaxSizeExpressionDepth) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the expression '", result_.text_, "' nests deeper than ",
          kMaxSizeExpressionDepth, " parentheses and minus signs"));
    }
    RETURN_IF_ERROR(ParseTerm(depth));
    while (Next() == '+' || Next() == '-') {
      const Kind kind =
          result_.text_[at_++] == '+' ? Kind::kAdd : Kind::kSubtract;
      RETURN_IF_ERROR(ParseTerm(depth));
      Add(kind);
    }
    return absl::OkStatus();
  }

  absl::Status ParseTerm(int depth) {
    RETURN_IF_ERROR(ParseFactor(depth));
    while (Next() == '*' || Next() == '/') {
      const Kind kind =
          result_.text_[at_++] == '*' ? Kind::kMultiply : Kind::kDivide;
      if (kind == Kind::kDivide) {
        if (at_ == result_.text_.size() || result_.text_[at_] != '/') {
          return Refuse("a second '/' should stand");
        }
        ++at_;
      }
      RETURN_IF_ERROR(ParseFactor(depth));
      Add(kind);
    }
    return absl::OkStatus();
  }

  absl::Status ParseFactor(int depth) {
    const char next = Next();
    if (next == '(') {
      ++at_;
      RETURN_IF_ERROR(ParseSum(depth + 1));
      if (Next() != ')') return Refuse("a ')' should stand");
      ++at_;
      return absl::OkStatus();
    }
    if (next == '-') {
      ++at_;
      // ParseSum refuses this depth with the right message.
      if (depth >= kMaxSizeExpressionDepth) return ParseSum(depth + 1);
      // A minus sign is a subtraction from 0.
      Add(Kind::kNumber, 0);
      RETURN_IF_ERROR(ParseFactor(depth + 1));
      Add(Kind::kSubtract);
      return absl::OkStatus();
    }
    const size_t start = at_;
    if (StartsName(next)) {
      while (at_ < result_.text_.size() && ContinuesName(result_.text_[at_])) {
        ++at_;
      }
      AddName(result_.text_.substr(start, at_ - start));
      return absl::OkStatus();
    }
    while (at_ < result_.text_.size() &&
           absl::ascii_isdigit(result_.text_[at_])) {
      ++at_;
    }
    int64_t number = 0;
    if (at_ == start) return Refuse("a name, a number or '(' should stand");
    if (!absl::SimpleAtoi(result_.text_.substr(start, at_ - start), &number)) {
      at_ = start;
      return Refuse("the number has more than 63 bits");
    }
    Add(Kind::kNumber, number);
    return absl::OkStatus();
  }

  void Add(Kind kind, int64_t number = 0) {
    result_.steps_.push_back({kind, number});
  }

  void AddName(std::string name) {
    auto& names = result_.names_;
    const auto found = std::find(names.begin(), names.end(), name);
    Add(Kind::kName, found - names.begin());
    if (found == names.end()) names.push_back(std::move(name));
  }

  SizeExpression result_;
  size_t at_ = 0;
};

absl::StatusOr<SizeExpression> SizeExpression::Parse(absl::string_view text) {
  return SizeExpressionParser(text).Parse();
}

bool SizeExpression::Uses(absl::string_view name) const {
  return std::find(names_.begin(), names_.end(), name) != names_.end();
}

bool SizeExpression::EndsWith(absl::string_view name) const {
  const auto is_name = [&](const Step& step) {
    return step.kind == Step::Kind::kName &&
           names_[static_cast<size_t>(step.number)] == name;
  };
  if (std::count_if(steps_.begin(), steps_.end(), is_name) != 1) return false;
  if (steps_.size() == 1) return true;
  // The last operator adds the name to all before it.
  return steps_.back().kind == Step::Kind::kAdd &&
         is_name(steps_[steps_.size() - 2]);
}

absl::StatusOr<SizeRange> SizeExpression::Apply(Step::Kind kind,
                                                const SizeRange& a,
                                                const SizeRange& b) {
  const auto apply = [kind](int64_t x, int64_t y, int64_t* result) {
    switch (kind) {
      case Step::Kind::kAdd:
        return !__builtin_add_overflow(x, y, result);
      case Step::Kind::kSubtract:
        return !__builtin_sub_overflow(x, y, result);
      case Step::Kind::kMultiply:
        return !__builtin_mul_overflow(x, y, result);
      default:
        return DivideDown(x, y, result);
    }
  };
  if (kind == Step::Kind::kDivide && b.first <= 0 && b.last >= 0) {
    return absl::InvalidArgumentError("divides by 0");
  }
  // Each operator is monotone in each operand, division because its divisors
  // have one sign. So the extremes are at the ends.
  SizeRange result{INT64_MAX, INT64_MIN};
  for (const int64_t x : {a.first, a.last}) {
    for (const int64_t y : {b.first, b.last}) {
      int64_t value = 0;
      if (!apply(x, y, &value)) {
        return absl::InvalidArgumentError("has more than 63 bits");
      }
      result.first = std::min(result.first, value);
      result.last = std::max(result.last, value);
    }
  }
  return result;
}

absl::StatusOr<SizeRange> SizeExpression::Bounds(
    absl::Span<const SizeRange> sizes) const {
  std::vector<SizeRange> stack;
  for (const Step& step : steps_) {
    if (step.kind == Step::Kind::kNumber) {
      stack.push_back({step.number, step.number});
      continue;
    }
    if (step.kind == Step::Kind::kName) {
      stack.push_back(sizes[static_cast<size_t>(step.number)]);
      continue;
    }
    const SizeRange right = stack.back();
    stack.pop_back();
    const absl::StatusOr<SizeRange> result =
        Apply(step.kind, stack.back(), right);
    if (!result.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", text_, "' ", result.status().message()));
    }
    stack.back() = *result;
  }
  return stack.back();
}

absl::StatusOr<int64_t> SizeExpression::Value(
    absl::Span<const int64_t> sizes) const {
  std::vector<SizeRange> ranges;
  for (const int64_t size : sizes) ranges.push_back({size, size});
  ASSIGN_OR_RETURN(const SizeRange value, Bounds(ranges));
  return value.first;
}

SizeExpression SizeExpression::With(
    const std::map<std::string, int64_t>& sizes) const {
  std::string text;
  for (size_t at = 0; at < text_.size();) {
    size_t end = at + 1;
    if (absl::ascii_isdigit(text_[at])) {
      while (end < text_.size() && absl::ascii_isdigit(text_[end])) ++end;
    } else if (StartsName(text_[at])) {
      while (end < text_.size() && ContinuesName(text_[end])) ++end;
    }
    const std::string part = text_.substr(at, end - at);
    const auto size = sizes.find(part);
    absl::StrAppend(&text,
                    size == sizes.end() ? part : absl::StrCat(size->second));
    at = end;
  }
  SizeExpression result = *this;
  result.text_ = std::move(text);
  for (Step& step : result.steps_) {
    if (step.kind != Step::Kind::kName) continue;
    const auto size = sizes.find(names_[static_cast<size_t>(step.number)]);
    if (size != sizes.end()) step = {Step::Kind::kNumber, size->second};
  }
  // The names that are left move up.
  result.names_.clear();
  for (Step& step : result.steps_) {
    if (step.kind != Step::Kind::kName) continue;
    const std::string& name = names_[static_cast<size_t>(step.number)];
    auto found = std::find(result.names_.begin(), result.names_.end(), name);
    step.number = found - result.names_.begin();
    if (found == result.names_.end()) result.names_.push_back(name);
  }
  return result;
}

}  // namespace gpupool::engine
