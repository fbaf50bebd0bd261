// Cuts the data of large initializers out of the bytes of an ONNX file, so that
// the protobuf library does not copy them. Pure. Usable from any thread.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace gpupool::engine::onnx_import {

// Least bytes of data that are cut out.
inline constexpr uint64_t kLeastCutBytes = 16 << 10;

// Returns the bytes of the same model, in which large raw_data of the graph's
// initializers are external data of kModelLocation (external_files.h), by their
// place in `bytes`. Data that would be converted when they are read stay where
// they are. CheckWire must have accepted `bytes`.
std::string CutInitializers(absl::string_view bytes);

}  // namespace gpupool::engine::onnx_import
