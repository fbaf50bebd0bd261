// Private to server/http: bodies of the POSTs about the model repository.
//
//   index            {"ready": true}
//   load, unload     {"parameters": {"key": value}}
//
// An empty body is an empty object. Other fields are ignored.
//
// Pure functions.
#pragma once

#include <google/protobuf/map.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"

namespace gpupool::server {

// Returns the request without the name of a repository. InvalidArgument for a
// body that is no object in JSON, and for a `ready` that is no boolean.
absl::StatusOr<inference::RepositoryIndexRequest> ReadIndexRequest(
    const std::string& body);

// Fills in the parameters of the body. InvalidArgument names the parameter that
// is no boolean, no integer of 64 bits and no string.
absl::Status ReadRepositoryParameters(
    const std::string& body,
    google::protobuf::Map<std::string, inference::ModelRepositoryParameter>*
        parameters);

}  // namespace gpupool::server
