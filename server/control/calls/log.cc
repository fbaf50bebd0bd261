#include "server/control/calls/log.h"

#include "spdlog/spdlog.h"

namespace gpupool::server {
namespace {

spdlog::string_view_t ToSpdlog(absl::string_view line) {
  return {line.data(), line.size()};
}

}  // namespace

void LogInfo(absl::string_view line) {
  spdlog::log(spdlog::level::info, ToSpdlog(line));
}

void LogWarning(absl::string_view line) {
  spdlog::log(spdlog::level::warn, ToSpdlog(line));
}

void LogCritical(absl::string_view line) {
  spdlog::log(spdlog::level::critical, ToSpdlog(line));
}

}  // namespace gpupool::server
