#include "server/log/json_log.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "spdlog/common.h"
#include "spdlog/details/log_msg.h"

namespace gpupool::server {
namespace {

constexpr std::array<absl::string_view, 7> kIds = {
    "event", "job", "attempt", "device", "model", "version", "pid"};

// Adds the ids that the message names. The first of a name counts.
void AddIds(absl::string_view message, nlohmann::ordered_json& json) {
  for (absl::string_view word :
       absl::StrSplit(message, ' ', absl::SkipEmpty())) {
    if (absl::StrContains(word, '"')) return;
    const bool is_last = absl::ConsumeSuffix(&word, ":");
    const std::pair<std::string, absl::string_view> parts =
        absl::StrSplit(word, absl::MaxSplits('=', 1));
    const auto& [name, value] = parts;
    const bool is_id = std::find(kIds.begin(), kIds.end(), name) != kIds.end();
    if (is_id && !value.empty() && !json.contains(name)) {
      json[name] = std::string(value);
    }
    if (is_last) return;
  }
}

class JsonFormatter : public spdlog::formatter {
 public:
  explicit JsonFormatter(LogSource source) : source_(std::move(source)) {}

  void format(const spdlog::details::log_msg& message,
              spdlog::memory_buf_t& out) override {
    const spdlog::string_view_t level =
        spdlog::level::to_string_view(message.level);
    const std::string line = JsonLogLine(
        source_, {absl::FromChrono(message.time),
                  {level.data(), level.size()},
                  {message.payload.data(), message.payload.size()}});
    out.append(line.data(), line.data() + line.size());
    out.push_back('\n');
  }

  std::unique_ptr<spdlog::formatter> clone() const override {
    return std::make_unique<JsonFormatter>(source_);
  }

 private:
  const LogSource source_;
};

}  // namespace

std::string JsonLogLine(const LogSource& source, const LogLine& line) {
  nlohmann::ordered_json json;
  json["time"] =
      absl::FormatTime("%Y-%m-%dT%H:%M:%E6SZ", line.time, absl::UTCTimeZone());
  json["level"] = std::string(line.level);
  json["message"] = std::string(line.message);
  json["source"] = source.program;
  AddIds(line.message, json);
  if (!source.device.empty() && !json.contains("device")) {
    json["device"] = source.device;
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::unique_ptr<spdlog::formatter> JsonLogFormatter(LogSource source) {
  return std::make_unique<JsonFormatter>(std::move(source));
}

}  // namespace gpupool::server
