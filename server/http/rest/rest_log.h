// Private to server/http: the log settings of the REST protocol, as in
// {"log_info":true,"log_verbose_level":0,"log_format":"ISO8601"}.
//
// Pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"

namespace gpupool::server {

// Returns the settings of a body; none for an empty one. InvalidArgument for a
// body that is no object in JSON, and names the setting that is no boolean, no
// whole number of 32 bits without a sign, and no string.
absl::StatusOr<inference::LogSettingsRequest> ReadLogRequest(
    const std::string& body);

// Returns the settings in the order of their names.
std::string LogSettingsJson(const inference::LogSettingsResponse& response);

}  // namespace gpupool::server
