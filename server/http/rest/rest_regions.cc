#include "server/http/rest/rest_regions.h"

#include <cstdint>
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "nlohmann/json.hpp"
#include "server/http/rest/rest_body.h"

namespace gpupool::server {
namespace {

// Returns a field that is a number; nothing when it is not there.
absl::StatusOr<std::optional<uint64_t>> FieldOf(const nlohmann::json& body,
                                                const char* name) {
  const auto field = body.find(name);
  if (field == body.end() || field->is_null()) {
    return std::optional<uint64_t>();
  }
  if (!field->is_number_unsigned()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", name, "' takes an integer of 64 bits from 0"));
  }
  return std::optional<uint64_t>(field->get<uint64_t>());
}

}  // namespace

absl::StatusOr<inference::SystemSharedMemoryRegisterRequest> ReadRegionRequest(
    const std::string& body) {
  ASSIGN_OR_RETURN(const RestBody read, ReadRestBody(body));
  const auto key = read.json.find("key");
  if (key == read.json.end() || !key->is_string()) {
    return absl::InvalidArgumentError(
        "the request has no 'key' that is a string; give the name of "
        "shm_open, as \"/name\"");
  }
  ASSIGN_OR_RETURN(const std::optional<uint64_t> offset,
                   FieldOf(read.json, "offset"));
  ASSIGN_OR_RETURN(const std::optional<uint64_t> bytes,
                   FieldOf(read.json, "byte_size"));
  if (!bytes.has_value()) {
    return absl::InvalidArgumentError(
        "the request has no 'byte_size'; give the bytes of the region");
  }
  inference::SystemSharedMemoryRegisterRequest request;
  request.set_key(key->get<std::string>());
  request.set_offset(offset.value_or(0));
  request.set_byte_size(*bytes);
  return request;
}

std::string RegionsJson(
    const inference::SystemSharedMemoryStatusResponse& response) {
  using Json = nlohmann::ordered_json;
  const std::map<std::string,
                 inference::SystemSharedMemoryStatusResponse::RegionStatus>
      sorted(response.regions().begin(), response.regions().end());
  Json list = Json::array();
  for (const auto& [name, region] : sorted) {
    list.push_back({{"name", name},
                    {"key", region.key()},
                    {"offset", region.offset()},
                    {"byte_size", region.byte_size()}});
  }
  return list.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace gpupool::server
