#include "server/http/rest/rest_log.h"

#include <cstdint>
#include <limits>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/http/rest/rest_body.h"

namespace gpupool::server {
namespace {

bool SetLogValue(const nlohmann::json& value,
                 inference::LogSettingsRequest::SettingValue* setting) {
  if (value.is_boolean()) {
    setting->set_bool_param(value.get<bool>());
  } else if (value.is_string()) {
    setting->set_string_param(value.get<std::string>());
  } else if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > std::numeric_limits<uint32_t>::max()) return false;
    setting->set_uint32_param(static_cast<uint32_t>(number));
  } else {
    return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<inference::LogSettingsRequest> ReadLogRequest(
    const std::string& body) {
  inference::LogSettingsRequest request;
  if (body.empty()) return request;
  const auto read = ReadRestBody(body);
  if (!read.ok()) return read.status();
  for (const auto& [name, value] : read->json.items()) {
    if (SetLogValue(value, &(*request.mutable_settings())[name])) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "log setting '", name, "' takes a boolean, a whole number 0 .. ",
        std::numeric_limits<uint32_t>::max(), " or a string"));
  }
  return request;
}

std::string LogSettingsJson(const inference::LogSettingsResponse& response) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : response.settings()) {
    if (value.has_bool_param()) {
      json[name] = value.bool_param();
    } else if (value.has_uint32_param()) {
      json[name] = value.uint32_param();
    } else {
      json[name] = value.string_param();
    }
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace gpupool::server
