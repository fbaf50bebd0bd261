// Private to server/http: shared memory in the REST protocol.
//
//   register   {"key": "/name", "offset": 0, "byte_size": 4096}
//   status     [{"name","key","offset","byte_size"}]
//
// Without "offset" it is 0. Other fields are ignored.
//
// Pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"

namespace gpupool::server {

// Returns the request without the name of the region. InvalidArgument for a
// body that is no object in JSON, for a key that is no string, and for numbers
// that are no integers from 0.
absl::StatusOr<inference::SystemSharedMemoryRegisterRequest> ReadRegionRequest(
    const std::string& body);

// Returns the regions by name.
std::string RegionsJson(
    const inference::SystemSharedMemoryStatusResponse& response);

}  // namespace gpupool::server
