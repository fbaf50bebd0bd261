// Private to server/http: the trace settings of the REST protocol, as in
// {"trace_level":["TIMESTAMPS"],"trace_rate":"1000"}.
//
// Pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"

namespace gpupool::server {

// Returns the settings of a body; none for an empty one. InvalidArgument for a
// body that is no object in JSON, and names the setting that is no string, no
// whole number and no list of strings.
absl::StatusOr<inference::TraceSettingRequest> ReadTraceRequest(
    const std::string& body);

// Returns the settings in the order of their names. Values are strings;
// trace_level is a list of them.
std::string TraceSettingsJson(const inference::TraceSettingResponse& response);

}  // namespace gpupool::server
