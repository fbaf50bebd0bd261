#include "server/http/rest/rest_repository.h"

#include <cstdint>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "nlohmann/json.hpp"
#include "server/http/rest/rest_body.h"

namespace gpupool::server {
namespace {

absl::StatusOr<nlohmann::json> ObjectOfBody(const std::string& body) {
  if (body.empty()) return nlohmann::json::object();
  auto read = ReadRestBody(body);
  if (!read.ok()) return read.status();
  return std::move(read->json);
}

bool SetRepositoryParameter(const nlohmann::json& value,
                            inference::ModelRepositoryParameter* parameter) {
  if (value.is_boolean()) {
    parameter->set_bool_param(value.get<bool>());
  } else if (value.is_number_unsigned()) {
    const uint64_t number = value.get<uint64_t>();
    if (number > std::numeric_limits<int64_t>::max()) return false;
    parameter->set_int64_param(static_cast<int64_t>(number));
  } else if (value.is_number_integer()) {
    parameter->set_int64_param(value.get<int64_t>());
  } else if (value.is_string()) {
    parameter->set_string_param(value.get<std::string>());
  } else {
    return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<inference::RepositoryIndexRequest> ReadIndexRequest(
    const std::string& body) {
  const auto json = ObjectOfBody(body);
  if (!json.ok()) return json.status();
  inference::RepositoryIndexRequest request;
  const auto ready = json->find("ready");
  if (ready == json->end()) return request;
  if (!ready->is_boolean()) {
    return absl::InvalidArgumentError(
        "'ready' takes true, which lists the versions that are ready, or "
        "false, which lists all");
  }
  request.set_ready(ready->get<bool>());
  return request;
}

absl::Status ReadRepositoryParameters(
    const std::string& body,
    google::protobuf::Map<std::string, inference::ModelRepositoryParameter>*
        parameters) {
  const auto json = ObjectOfBody(body);
  if (!json.ok()) return json.status();
  const auto given = json->find("parameters");
  if (given == json->end()) return absl::OkStatus();
  if (!given->is_object()) {
    return absl::InvalidArgumentError("'parameters' takes an object");
  }
  for (const auto& [key, value] : given->items()) {
    if (!SetRepositoryParameter(value, &(*parameters)[key])) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter '", key,
                       "' takes a boolean, an integer of 64 bits or a string"));
    }
  }
  return absl::OkStatus();
}

}  // namespace gpupool::server
