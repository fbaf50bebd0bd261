// The JSON of the protocol's REST form. Written field by field, because
// protobuf's own mapping makes strings of 64-bit numbers.
//
// Pure functions.
#pragma once

#include <string>

#include "inference/grpc_service.pb.h"

namespace gpupool::server {

std::string ToJson(const inference::ServerMetadataResponse& response);
std::string ToJson(const inference::ModelMetadataResponse& response);
// {"live":true}
std::string FlagJson(const std::string& name, bool value);
// {"name":"m","ready":true}
std::string ModelReadyJson(const std::string& model, bool ready);
// {"error":"text"}; bytes that are not UTF-8 are replaced.
std::string ErrorJson(const std::string& text);

}  // namespace gpupool::server
