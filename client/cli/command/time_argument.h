// Times as people give them on the command line. Pure; from any thread.
#pragma once

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace gpupool::client {

// "7d", "12h", "1h30m" before `now`; "2026-11-22" (midnight) or
// "2026-11-22T10:00:00", in local time; the latter also with "Z" or "+02:00".
// InvalidArgument names `option` and the forms.
absl::StatusOr<absl::Time> ParseTimeArgument(const std::string& option,
                                             absl::string_view text,
                                             absl::Time now);

// Nothing for "now", else a time to come: "+2h", "+1d" after `now`, or as
// above. InvalidArgument names `option` and the forms.
absl::StatusOr<std::optional<absl::Time>> ParseComingTime(
    const std::string& option, absl::string_view text, absl::Time now);

}  // namespace gpupool::client
