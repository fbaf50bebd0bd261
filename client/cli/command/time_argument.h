// Parses times on the command line. Pure; from any thread.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gpupool::client {

// Parses "7d", "12h" or "1h30m" (that long before `now`), "2026-11-22"
// (midnight) or "2026-11-22T10:00:00". Dates are in local time, unless the time
// ends in "Z" or "+02:00". InvalidArgument names `option` and the forms.
absl::StatusOr<absl::Time> ParseTimeArgument(const std::string& option,
                                             absl::string_view text,
                                             absl::Time now);

// Returns nothing for "now", else a future time: "+2h" or "+1d" after `now`, or
// a date as above. InvalidArgument names `option` and the forms.
absl::StatusOr<std::optional<absl::Time>> ParseComingTime(
    const std::string& option, absl::string_view text, absl::Time now);

}  // namespace gpupool::client
