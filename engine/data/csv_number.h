// Numbers as text, fast: the part of CSV reading that takes the time.
#pragma once

#include <optional>
#include <string_view>

namespace gpupool::engine {

// Parses all of `text`: an optional sign, digits, an optional fraction and an
// optional exponent. The result is the nearest double (short decimals by one
// exact division, Clinger 1990; others by std::from_chars). Empty when the
// text is anything else, infinities and "nan" included, or when the number is
// too large for a double.
std::optional<double> ParseNumber(std::string_view text);

}  // namespace gpupool::engine
