// The size of a dimension that follows from other dimensions, as text and as a
// function.
//
//   expression = term {("+" | "-") term}
//   term       = factor {("*" | "//") factor}
//   factor     = "-" factor | "(" expression ")" | name | number
//   name       = (letter | "_") {letter | digit | "_" | "."}
//   number     = digit {digit}
//
// Spaces may stand between all of these. "//" rounds down, also below 0.
//
// Thread-safety: immutable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gpupool::engine {

// Limits of a text: its length, and how deep parentheses and minus signs nest.
inline constexpr size_t kMaxSizeExpressionBytes = 256;
inline constexpr int kMaxSizeExpressionDepth = 16;

// All whole numbers from the first to the last.
struct SizeRange {
  int64_t first = 0;
  int64_t last = 0;
};

class SizeExpression {
 public:
  // Parses a text. INVALID_ARGUMENT quotes it and says what is wrong where.
  static absl::StatusOr<SizeExpression> Parse(absl::string_view text);

  // Returns the text as it was parsed.
  const std::string& text() const { return text_; }
  // Returns the names of dimensions, each once, in the order of the text.
  const std::vector<std::string>& names() const { return names_; }
  bool Uses(absl::string_view name) const;
  // Returns whether the text is a name alone.
  bool IsName() const { return steps_.size() == 1 && !names_.empty(); }
  // Returns whether the expression is the sum of something and of this name,
  // which stands at the end and nowhere else. The name alone counts.
  bool EndsWith(absl::string_view name) const;

  // Returns the value for these sizes, in the order of names(). It may be
  // negative. INVALID_ARGUMENT when a number exceeds 63 bits or a divisor is 0.
  absl::StatusOr<int64_t> Value(absl::Span<const int64_t> sizes) const;
  // Returns a range that has all values for sizes in these ranges.
  // INVALID_ARGUMENT when an end exceeds 63 bits or a divisor may be 0.
  absl::StatusOr<SizeRange> Bounds(absl::Span<const SizeRange> sizes) const;

  // Returns the expression with numbers in place of the names in `sizes`.
  SizeExpression With(const std::map<std::string, int64_t>& sizes) const;

  friend bool operator==(const SizeExpression& a, const SizeExpression& b) {
    return a.text_ == b.text_;
  }

 private:
  friend class SizeExpressionParser;
  // A step of the computation on a stack. Operators take two numbers from it.
  struct Step {
    enum class Kind { kNumber, kName, kAdd, kSubtract, kMultiply, kDivide };
    Kind kind;
    int64_t number = 0;  // kNumber: itself; kName: its position in names_
  };

  static absl::StatusOr<SizeRange> Apply(Step::Kind kind, const SizeRange& a,
                                         const SizeRange& b);

  std::string text_;
  std::vector<std::string> names_;
  std::vector<Step> steps_;
};

}  // namespace gpupool::engine
