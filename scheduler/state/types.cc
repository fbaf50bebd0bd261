#include "scheduler/state/types.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace gpupool::scheduler {

absl::string_view ToString(JobState state) {
  switch (state) {
    case JobState::kQueued:
      return "QUEUED";
    case JobState::kStarting:
      return "STARTING";
    case JobState::kRunning:
      return "RUNNING";
    case JobState::kBackingOff:
      return "BACKING_OFF";
    case JobState::kCancelling:
      return "CANCELLING";
    case JobState::kSucceeded:
      return "SUCCEEDED";
    case JobState::kFailed:
      return "FAILED";
    case JobState::kCancelled:
      return "CANCELLED";
  }
  return "UNKNOWN";
}

absl::string_view ToString(VersionState state) {
  switch (state) {
    case VersionState::kUnloaded:
      return "UNLOADED";
    case VersionState::kLoading:
      return "LOADING";
    case VersionState::kReady:
      return "READY";
    case VersionState::kUnloading:
      return "UNLOADING";
    case VersionState::kLoadFailed:
      return "LOAD_FAILED";
  }
  return "UNKNOWN";
}

namespace {

std::string BytesWithDecimals(uint64_t bytes, int decimals) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return absl::StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  while (value >= 1024 && unit < 4) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.*f %s", decimals, value, kUnits[unit]);
}

}  // namespace

std::string FormatBytes(uint64_t bytes) { return BytesWithDecimals(bytes, 1); }

std::pair<std::string, std::string> FormatBytePair(uint64_t first,
                                                   uint64_t second) {
  for (int decimals = 1; decimals <= 3; ++decimals) {
    std::pair<std::string, std::string> texts = {
        BytesWithDecimals(first, decimals),
        BytesWithDecimals(second, decimals)};
    if (first == second || texts.first != texts.second) return texts;
  }
  return {absl::StrCat(first, " B"), absl::StrCat(second, " B")};
}

std::string FormatSpan(absl::Duration span) {
  const absl::Duration unit =
      span < absl::Seconds(10) ? absl::Milliseconds(100) : absl::Seconds(1);
  return absl::FormatDuration(absl::Trunc(span, unit));
}

}  // namespace gpupool::scheduler
