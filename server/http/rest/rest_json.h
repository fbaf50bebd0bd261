// Writes the JSON of the protocol's REST form field by field, because
// protobuf's own mapping turns 64-bit numbers into strings.
//
// Pure functions.
#pragma once

#include <string>

#include "inference/grpc_service.pb.h"

namespace gpupool::server {

std::string ToJson(const inference::ServerMetadataResponse& response);
std::string ToJson(const inference::ModelMetadataResponse& response);
// Returns [{"name","version","state","reason"}].
std::string ToJson(const inference::RepositoryIndexResponse& response);
// Returns {"live":true}.
std::string FlagJson(const std::string& name, bool value);
// Returns {"name":"m","ready":true}.
std::string ModelReadyJson(const std::string& model, bool ready);
// Returns {"error":"text"}. Replaces bytes that are not UTF-8.
std::string ErrorJson(const std::string& text);

}  // namespace gpupool::server
