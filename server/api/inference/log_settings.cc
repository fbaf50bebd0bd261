#include "server/api/inference/log_settings.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {
namespace {

using LogValue = inference::LogSettingsRequest::SettingValue;

constexpr absl::string_view kLogFile = "log_file";
constexpr absl::string_view kLogFormat = "log_format";
// Settings that turn a level on or off, by the number of the level. kCritical
// has none, since it is always on.
constexpr absl::string_view kLevelSettings[] = {"log_verbose_level", "log_info",
                                                "log_warning", "log_error"};
constexpr auto kAlwaysOn = static_cast<size_t>(LogLevel::kCritical);
static_assert(std::size(kLevelSettings) == kAlwaysOn);

// The levels that the settings allow as the lowest that is logged.
struct LevelRange {
  size_t lowest = 0;
  size_t highest = kAlwaysOn;
};

absl::StatusOr<bool> ReadSwitch(size_t level, const LogValue& value) {
  if (level == static_cast<size_t>(LogLevel::kDebug)) {
    if (value.has_uint32_param()) return value.uint32_param() > 0;
    return absl::InvalidArgumentError(
        absl::StrCat(kLevelSettings[level],
                     " takes a whole number, 0 or more, as uint32_param"));
  }
  if (value.has_bool_param()) return value.bool_param();
  return absl::InvalidArgumentError(absl::StrCat(
      kLevelSettings[level], " takes true or false, as bool_param"));
}

absl::Status CheckFormat(const LogValue& value, const LogControl& log) {
  if (value.has_string_param() && value.string_param() == log.Format()) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      kLogFormat, " is ", log.Format(),
      " and cannot be changed over the network; start the server with another "
      "--log-format"));
}

// Checks a setting, and narrows the range by it.
absl::Status ReadLogSetting(const std::string& name, const LogValue& value,
                            const LogControl& log, LevelRange* range) {
  if (name == kLogFile) {
    return absl::UnimplementedError(
        "log file location can not be updated through network protocol; the "
        "server logs to standard error");
  }
  if (name == kLogFormat) return CheckFormat(value, log);
  const auto* const found =
      std::find(std::begin(kLevelSettings), std::end(kLevelSettings), name);
  if (found == std::end(kLevelSettings)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the log has no setting '", name, "'; it has ",
                     absl::StrJoin(kLevelSettings, ", "), " and ", kLogFormat));
  }
  const auto level = static_cast<size_t>(found - std::begin(kLevelSettings));
  ASSIGN_OR_RETURN(const bool on, ReadSwitch(level, value));
  if (on) {
    range->highest = std::min(range->highest, level);
  } else {
    range->lowest = std::max(range->lowest, level + 1);
  }
  return absl::OkStatus();
}

void FillLogSettings(const LogControl& log,
                     inference::LogSettingsResponse* response) {
  auto& settings = *response->mutable_settings();
  const auto lowest = static_cast<size_t>(log.Level());
  for (size_t level = 0; level < kAlwaysOn; ++level) {
    auto& setting = settings[std::string(kLevelSettings[level])];
    if (level == static_cast<size_t>(LogLevel::kDebug)) {
      setting.set_uint32_param(lowest <= level ? 1 : 0);
    } else {
      setting.set_bool_param(lowest <= level);
    }
  }
  settings[std::string(kLogFile)].set_string_param("");
  settings[std::string(kLogFormat)].set_string_param(log.Format());
}

}  // namespace

absl::Status AnswerLogSettings(const inference::LogSettingsRequest& request,
                               LogControl* log,
                               inference::LogSettingsResponse* response) {
  LevelRange range;
  for (const auto& [name, value] : request.settings()) {
    RETURN_IF_ERROR(ReadLogSetting(name, value, *log, &range));
  }
  if (range.lowest > range.highest) {
    return absl::InvalidArgumentError(absl::StrCat(
        kLevelSettings[range.lowest - 1], " cannot be off while ",
        kLevelSettings[range.highest],
        " is on, because a level includes those above it; turn both on, or "
        "both off"));
  }
  const auto present = static_cast<size_t>(log->Level());
  const size_t level = std::clamp(present, range.lowest, range.highest);
  if (level != present) log->SetLevel(static_cast<LogLevel>(level));
  FillLogSettings(*log, response);
  return absl::OkStatus();
}

}  // namespace gpupool::server
