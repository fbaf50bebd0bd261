// Looks at the bytes of an ONNX file before the protobuf library does, so
// that a small file cannot become a large message: two bytes on the wire are
// enough for an empty node of some hundred bytes in memory.
// Pure; usable from any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::onnx_import {

// A protobuf message cannot be larger.
inline constexpr uint64_t kMaxFileBytes = (uint64_t{1} << 31) - 1;
// Messages within messages; a subgraph takes three levels.
inline constexpr int kMaxMessageDepth = 90;

// InvalidArgument when `bytes` is not the wire form of a ModelProto, nests
// deeper than kMaxMessageDepth or would take more memory than four times its
// size plus 256 MiB.
absl::Status CheckWire(absl::string_view bytes);

}  // namespace gpupool::engine::onnx_import
