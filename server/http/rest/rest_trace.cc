#include "server/http/rest/rest_trace.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"
#include "server/http/rest/rest_body.h"

namespace gpupool::server {
namespace {

constexpr absl::string_view kTraceLevelSetting = "trace_level";

bool AddTraceValue(const nlohmann::json& value,
                   inference::TraceSettingRequest::SettingValue* setting) {
  if (value.is_string()) {
    setting->add_value(value.get<std::string>());
  } else if (value.is_number_unsigned()) {
    setting->add_value(absl::StrCat(value.get<uint64_t>()));
  } else if (value.is_number_integer()) {
    setting->add_value(absl::StrCat(value.get<int64_t>()));
  } else {
    return false;
  }
  return true;
}

bool SetTraceValue(const nlohmann::json& value,
                   inference::TraceSettingRequest::SettingValue* setting) {
  if (!value.is_array()) return AddTraceValue(value, setting);
  for (const nlohmann::json& element : value) {
    if (!element.is_string() || !AddTraceValue(element, setting)) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<inference::TraceSettingRequest> ReadTraceRequest(
    const std::string& body) {
  inference::TraceSettingRequest request;
  if (body.empty()) return request;
  const auto read = ReadRestBody(body);
  if (!read.ok()) return read.status();
  for (const auto& [name, value] : read->json.items()) {
    if (SetTraceValue(value, &(*request.mutable_settings())[name])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("trace setting '", name,
                     "' takes a string, a whole number or a list of strings"));
  }
  return request;
}

std::string TraceSettingsJson(const inference::TraceSettingResponse& response) {
  nlohmann::json json = nlohmann::json::object();
  for (const auto& [name, value] : response.settings()) {
    const bool one = value.value_size() == 1 && name != kTraceLevelSetting;
    json[name] =
        one ? nlohmann::json(value.value(0)) : nlohmann::json(value.value());
  }
  return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace gpupool::server
