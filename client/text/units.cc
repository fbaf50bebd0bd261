#include "client/text/units.h"

#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace gpupool::client {
namespace {

// Returns the factor of a unit such as "", "b", "kib", "mb", or 0 for an
// unknown unit.
uint64_t UnitFactor(std::string unit) {
  absl::AsciiStrToLower(&unit);
  if (!unit.empty() && unit.back() == 'b') unit.pop_back();
  const bool binary = unit.size() == 2 && unit[1] == 'i';
  if (binary) unit.pop_back();
  if (unit.empty()) return binary ? 0 : 1;
  if (unit.size() != 1) return 0;
  const size_t power = absl::string_view("kmgt").find(unit[0]);
  if (power == absl::string_view::npos) return 0;
  uint64_t factor = 1;
  for (size_t i = 0; i <= power; ++i) factor *= binary ? 1024 : 1000;
  return factor;
}

}  // namespace

absl::StatusOr<uint64_t> ParseByteSize(absl::string_view text) {
  const absl::string_view trimmed = absl::StripAsciiWhitespace(text);
  const size_t end = trimmed.find_first_not_of("0123456789.");
  const absl::string_view number = trimmed.substr(0, end);
  const std::string unit(end == absl::string_view::npos
                             ? absl::string_view()
                             : absl::StripAsciiWhitespace(trimmed.substr(end)));
  const uint64_t factor = UnitFactor(unit);
  const auto bad = [&](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text, "' is not a number of bytes: ", why,
                     "; write for example 1048576, 64MiB or 2GiB"));
  };
  if (number.empty()) return bad("it does not begin with a digit");
  if (factor == 0) return bad(absl::StrCat("unknown unit '", unit, "'"));
  uint64_t whole = 0;
  if (absl::SimpleAtoi(number, &whole)) {
    if (whole > std::numeric_limits<uint64_t>::max() / factor) {
      return bad("it is above 2^64-1");
    }
    return whole * factor;
  }
  double value = 0;
  if (!absl::SimpleAtod(number, &value)) return bad("the number is malformed");
  const double bytes = value * static_cast<double>(factor);
  if (bytes >= 0x1p64) return bad("it is above 2^64-1");
  if (bytes != std::floor(bytes)) return bad("it is not a whole number");
  return static_cast<uint64_t>(bytes);
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1023.5 && unit < 5) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", value < 99.95 ? 1 : 0, value, kUnits[unit]);
}

std::string FormatCount(double count) {
  if (!std::isfinite(count)) return "-";
  if (count < 999.5) return absl::StrFormat("%.0f", count);
  constexpr const char* kUnits = "kMGT";
  int unit = -1;
  while (count >= 999.5 && unit < 3) {
    count /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.*f%c", count < 99.95 ? 1 : 0, count, kUnits[unit]);
}

std::string FormatLoss(double loss) { return absl::StrFormat("%.4g", loss); }

std::string GroupDigits(uint64_t number) {
  const std::string digits = absl::StrCat(number);
  std::string grouped;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > 0 && (digits.size() - i) % 3 == 0) grouped += ',';
    grouped += digits[i];
  }
  return grouped;
}

std::string FormatSpan(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 9.95) return absl::StrFormat("%.1fs", seconds);
  if (seconds < 59.5) return absl::StrFormat("%.0fs", seconds);
  const int64_t whole = std::llround(seconds);
  const int64_t minutes = whole / 60, hours = minutes / 60, days = hours / 24;
  if (hours == 0) return absl::StrFormat("%dm%02ds", minutes, whole % 60);
  if (days == 0) return absl::StrFormat("%dh%02dm", hours, minutes % 60);
  return absl::StrFormat("%dd%02dh", days, hours % 24);
}

absl::StatusOr<absl::Duration> ParseSpan(absl::string_view text) {
  absl::Duration duration;
  double number = 0;
  absl::string_view days = text;
  if (absl::SimpleAtod(text, &number) && std::isfinite(number)) {
    duration = absl::Seconds(number);
  } else if (absl::ConsumeSuffix(&days, "d") &&
             absl::SimpleAtod(days, &number) && std::isfinite(number)) {
    duration = absl::Hours(24) * number;
  } else if (!absl::ParseDuration(std::string(text), &duration)) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", text,
                     "' is not a duration; write for example 30s, 2m, "
                     "1h30m or 2d, or a number of seconds"));
  }
  if (!(duration > absl::ZeroDuration())) {
    return absl::InvalidArgumentError(
        absl::StrCat("the duration '", text, "' must be above 0"));
  }
  return duration;
}

}  // namespace gpupool::client
