// Checks the bytes of an ONNX file before the protobuf library parses them, so
// that a small file cannot become a large message. An empty node has two bytes
// in the file but some hundred bytes in memory. Pure. Usable from any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::engine::onnx_import {

// Most bytes of a protobuf message.
inline constexpr uint64_t kMaxFileBytes = (uint64_t{1} << 31) - 1;
// Most messages inside each other. A subgraph takes three levels.
inline constexpr int kMaxMessageDepth = 90;

// Takes a varint off the front of the bytes. Returns false, and takes nothing,
// when they end before it or it has more than the 10 bytes of a 64-bit number.
bool TakeVarint(absl::string_view& bytes, uint64_t& number);

// Returns INVALID_ARGUMENT when `bytes` is not the wire form of a ModelProto,
// nests deeper than kMaxMessageDepth, or would take more memory than four times
// its size plus 256 MiB.
absl::Status CheckWire(absl::string_view bytes);

}  // namespace gpupool::engine::onnx_import
