// Fast parsing of numbers in text, which takes most of the time of CSV reading.
#pragma once

#include <optional>
#include <string_view>

namespace gpupool::engine {

// Parses all of `text`: an optional sign, digits, an optional fraction and an
// optional exponent. Returns the nearest double: short decimals by one exact
// division (Clinger 1990), others by std::from_chars. Returns nothing when
// - the text has any other form, such as infinities and "nan", or
// - the number is too large for a double.
std::optional<double> ParseNumber(std::string_view text);

// Returns whether a text that ParseNumber refuses was probably meant as a
// number:
// - "inf", "nan", or a number that is too large for a double
// - digits with points, commas, apostrophes, blanks, plus signs, "%" or "$"
bool LooksLikeNumber(std::string_view text);

}  // namespace gpupool::engine
