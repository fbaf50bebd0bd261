// Private to server/http: the requests and responses of /generate and
// /generate_stream. The body is one object:
//
//   an input's name      its elements: a scalar, a flat list, or lists in lists
//   "id"                 a string: the request's id
//   "parameters"         an object with parameters of the request
//   any other key        a parameter of the request
//
// A scalar or a flat list takes the shape of the model: of the sizes that it
// leaves open, the last follows from the number of elements and the others are
// 1. Lists in lists have their own shape, and the first dimension, which is
// open, may be left out.
//
// A response is {"model_name","model_version","id"} with a key for each output:
// its element, or a flat list of them unless there is one.
//
// Pure functions.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "inference/grpc_service.pb.h"

namespace gpupool::server {

// Returns the request in wire format, to the model and version of its metadata.
// Checks the form only; the service checks tensors and parameters. Errors:
//   * InvalidArgument: the JSON has another form, more values than
//     kMostRestValues, elements that do not fit the input's datatype, or not as
//     many as a shape of the model has
//   * ResourceExhausted: the JSON has more than kMostJsonBytes
absl::StatusOr<std::string> WireOfGenerate(
    const inference::ModelMetadataResponse& model, absl::string_view version,
    absl::string_view body);

// Returns the response on one line. Errors are those of OutputElements.
absl::StatusOr<std::string> GenerateJson(
    const inference::ModelInferResponse& response);

// Returns whether the response only says that it is the last one.
bool IsEmptyFinal(const inference::ModelInferResponse& response);

}  // namespace gpupool::server
