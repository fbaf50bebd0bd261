// Errors about files quote the files, whose texts may be of any length; a
// status has to fit into the headers of a reply. Pure; any thread.
#pragma once

#include <cstddef>

#include "absl/status/status.h"

namespace gpupool::engine::onnx_import {

inline constexpr size_t kMaxErrorBytes = 6000;

// The same with a message of at most kMaxErrorBytes, cut between characters
// where it was longer; payloads stay.
absl::Status Shortened(const absl::Status& status);

}  // namespace gpupool::engine::onnx_import
