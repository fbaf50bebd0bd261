#include "client/cli/time_argument.h"

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/quote.h"

namespace gpupool::client {
namespace {

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

}  // namespace

absl::StatusOr<absl::Time> ParseTimeArgument(const std::string& option,
                                             absl::string_view text,
                                             absl::Time now) {
  absl::Duration ago;
  if (ParseAgo(text, ago)) return now - ago;
  absl::Time time;
  const std::string given(text);
  std::string why;
  if (absl::ParseTime(absl::RFC3339_full, given, &time, &why)) return time;
  for (const char* form : {"%Y-%m-%dT%H:%M:%S", "%Y-%m-%d"}) {
    if (absl::ParseTime(form, given, absl::LocalTimeZone(), &time, &why)) {
      return time;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat(option, " is ", Quoted(text),
                   ", which is no time; write 7d or 12h (ago), 2026-11-22 or "
                   "2026-11-22T10:00:00Z"));
}

}  // namespace gpupool::client
