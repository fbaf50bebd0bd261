// Private to server/http: the response of an inference in the REST protocol.
//
//   {"model_name","model_version","id","parameters","outputs":[
//    {"name","datatype","shape","parameters","data"}]}
//
// "id" and "parameters" are there if they are not empty. An output has its
// elements in a flat list "data", or "binary_data_size" in its parameters and
// its elements after the JSON, in the order of the outputs. An output that was
// written to shared memory has neither. NaN and infinite
// elements are "NaN", "Infinity" and "-Infinity", because JSON has no such
// numbers. Other floating numbers have the shortest text that gives them back.
//
// Elements of BYTES are strings; bytes of them that are not UTF-8 are replaced.
//
// Pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "inference/grpc_service.pb.h"
#include "server/http/rest/output_forms.h"

namespace gpupool::server {

struct RestInferAnswer {
  std::string body;
  // Bytes of the JSON; nothing when the body has no binary data.
  std::optional<size_t> json_bytes;
};

// Returns the response. Errors:
//   * InvalidArgument: an output has a datatype that JSON does not have, and
//     the request does not ask for binary data
//   * Internal: an output has no contents, or not as many as its shape says
absl::StatusOr<RestInferAnswer> WriteInferResponse(
    const inference::ModelInferResponse& response, const OutputForms& forms);

// Returns the elements of an output as a flat list in JSON. Errors are those
// above.
absl::StatusOr<std::string> OutputElements(
    const inference::ModelInferResponse::InferOutputTensor& output,
    const std::string& raw);

// Returns the text as JSON has it. Replaces bytes that are not UTF-8.
std::string JsonText(const std::string& text);

}  // namespace gpupool::server
