#include "server/server_log.h"

#include <algorithm>
#include <utility>

#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

using spdlog::level::level_enum;

level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return level_enum::debug;
    case LogLevel::kInfo:
      return level_enum::info;
    case LogLevel::kWarning:
      return level_enum::warn;
    case LogLevel::kError:
      return level_enum::err;
    case LogLevel::kCritical:
      return level_enum::critical;
  }
  return level_enum::info;
}

}  // namespace

ServerLog::ServerLog(absl::string_view format)
    : format_(format == "text" ? "ISO8601" : std::string(format)) {}

LogLevel ServerLog::Level() const {
  const level_enum level = spdlog::get_level();
  for (const LogLevel known : {LogLevel::kDebug, LogLevel::kInfo,
                               LogLevel::kWarning, LogLevel::kError}) {
    if (level <= ToSpdlog(known)) return known;
  }
  return LogLevel::kCritical;
}

void ServerLog::SetLevel(LogLevel level) {
  const level_enum before = spdlog::get_level();
  const level_enum after = ToSpdlog(level);
  // The line is written at the more talkative of both levels.
  spdlog::set_level(std::min(before, after));
  spdlog::info("the level of the log is changed from={} to={}",
               spdlog::level::to_string_view(before),
               spdlog::level::to_string_view(after));
  spdlog::set_level(after);
}

std::string ServerLog::Format() const { return format_; }

}  // namespace gpupool::server
