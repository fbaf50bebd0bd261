// The files that an ONNX model keeps tensor data in, found by walking the
// file's protobuf fields: the client needs nothing else of the format and
// leaves reading models to the server's workers.
//
// Pure; from any thread.
#pragma once

#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace gpupool::client {

// The "location" entries of all tensors with external data. InvalidArgument
// when the bytes are no protobuf message, nested too deeply, or a location
// does not lead down from the model's folder.
absl::StatusOr<std::set<std::string>> ExternalLocations(
    absl::string_view model);

}  // namespace gpupool::client
