// Shortens errors about files. They quote the files, whose texts may have any
// length, but a status must fit into the headers of a reply. Pure. Usable from
// any thread.
#pragma once

#include <cstddef>

#include "absl/status/status.h"

namespace gpupool::engine::onnx_import {

inline constexpr size_t kMaxErrorBytes = 6000;

// Returns the status with a message of at most kMaxErrorBytes. Cuts longer
// messages between characters. Payloads stay.
absl::Status Shortened(const absl::Status& status);

}  // namespace gpupool::engine::onnx_import
