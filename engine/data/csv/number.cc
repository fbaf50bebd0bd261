#include "engine/data/csv/number.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>

namespace gpupool::engine {
namespace {

constexpr int kExactDigits = 15;  // 10^15 < 2^53
constexpr double kPowersOfTen[kExactDigits + 1] = {
    1e0, 1e1, 1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
    1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15};

// Parses at most 15 digits with at most one point; returns nothing for any
// other form. Both the digits and the power of ten are exact as doubles, so a
// single division rounds correctly.
std::optional<double> ParseShortDecimal(std::string_view digits) {
  if (digits.empty() || digits.size() > kExactDigits) return std::nullopt;
  uint64_t whole = 0;
  int fraction_digits = -1;  // -1: no point seen
  for (char c : digits) {
    if (c >= '0' && c <= '9') {
      whole = whole * 10 + static_cast<uint64_t>(c - '0');
      if (fraction_digits >= 0) ++fraction_digits;
    } else if (c == '.' && fraction_digits < 0 && digits.size() > 1) {
      fraction_digits = 0;
    } else {
      return std::nullopt;
    }
  }
  const double value = static_cast<double>(whole);
  return fraction_digits > 0 ? value / kPowersOfTen[fraction_digits] : value;
}

// Parses the forms that ParseShortDecimal refuses, such as exponents.
std::optional<double> ParseAny(std::string_view text) {
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (rest != end || error == std::errc::invalid_argument) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // from_chars reports the same error for too large and too small; strtod
    // gives infinity or a tiny number.
    value = std::strtod(std::string(text).c_str(), nullptr);
  }
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

std::optional<double> ParseNumber(std::string_view text) {
  std::string_view digits = text;
  bool negative = false;
  if (!digits.empty() && (digits[0] == '-' || digits[0] == '+')) {
    negative = digits[0] == '-';
    digits.remove_prefix(1);
  }
  std::optional<double> value = ParseShortDecimal(digits);
  // from_chars accepts a minus sign itself, but "--1" must not pass.
  if (!value && !digits.empty() && digits[0] != '-') value = ParseAny(digits);
  if (value && negative) value = -*value;
  return value;
}

bool LooksLikeNumber(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) {
    text.remove_prefix(1);
  }
  double value = 0;
  const char* end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  if (rest == end && error != std::errc::invalid_argument) return true;
  constexpr std::string_view kDigits = "0123456789";
  return text.find_first_not_of("0123456789.,' +%$") == text.npos &&
         text.find_first_of(kDigits) != text.npos;
}

}  // namespace gpupool::engine
