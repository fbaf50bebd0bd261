// Finds the files in which an ONNX model keeps tensor data, by walking through
// the file's protobuf fields. The client needs no other part of the format.
// Only the server's workers parse models.
//
// Pure; from any thread.
#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::client {

// Returns the "location" entries of all tensors with external data.
// InvalidArgument if the bytes are not a protobuf message, are nested too
// deeply, or have a location outside the model's folder.
absl::StatusOr<std::set<std::string>> ExternalLocations(
    absl::string_view model);

}  // namespace gpupool::client
