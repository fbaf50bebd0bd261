#include "client/cli/command/time_argument.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/text/quote.h"

namespace gpupool::client {
namespace {

// Parses "2d", "1h30m".
bool ParseAgo(absl::string_view text, absl::Duration& ago) {
  int64_t days = 0;
  absl::string_view number = text;
  if (absl::ConsumeSuffix(&number, "d") && absl::SimpleAtoi(number, &days)) {
    ago = absl::Hours(24) * days;
    return days >= 0;
  }
  return absl::ParseDuration(std::string(text), &ago) &&
         ago >= absl::ZeroDuration() && ago < absl::InfiniteDuration();
}

std::optional<absl::Time> ParseMoment(absl::string_view text) {
  absl::Time time;
  const std::string given(text);
  std::string why;
  if (absl::ParseTime(absl::RFC3339_full, given, &time, &why)) return time;
  for (const char* form : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"}) {
    if (absl::ParseTime(form, given, absl::LocalTimeZone(), &time, &why)) {
      return time;
    }
  }
  return std::nullopt;
}

}  // namespace

absl::StatusOr<absl::Time> ParseTimeArgument(const std::string& option,
                                             absl::string_view text,
                                             absl::Time now) {
  absl::Duration ago;
  if (ParseAgo(text, ago)) return now - ago;
  if (const auto time = ParseMoment(text)) return *time;
  return absl::InvalidArgumentError(
      absl::StrCat(option, " is ", Quoted(text),
                   ", which is not a time; write 7d or 12h (ago), 2026-11-22 "
                   "or 2026-11-22T10:00:00Z"));
}

absl::StatusOr<std::optional<absl::Time>> ParseComingTime(
    const std::string& option, absl::string_view text, absl::Time now) {
  if (text == "now") return std::nullopt;
  absl::string_view span = text;
  absl::Duration wait;
  if (absl::ConsumePrefix(&span, "+") && ParseAgo(span, wait)) {
    return now + wait;
  }
  if (const auto time = ParseMoment(text)) return time;
  return absl::InvalidArgumentError(
      absl::StrCat(option, " is ", Quoted(text),
                   ", which is not a future time; write now, +2h or +1d, "
                   "2026-11-24 or 2026-11-24T08:00:00Z"));
}

}  // namespace gpupool::client
