// Checks the structure of an ONNX model before any other code reads it: sizes,
// names, single assignment, order, nesting, functions without cycles. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"

namespace onnx {
class ModelProto;
}

namespace gpupool::engine::onnx_import {

inline constexpr int64_t kMinIrVersion = 3;
inline constexpr int64_t kMaxIrVersion = 13;
inline constexpr int64_t kMinOpset = 1;
inline constexpr int64_t kMaxOpset = 27;
inline constexpr int64_t kMaxNodes = 200000;  // including subgraphs
inline constexpr int64_t kMaxInitializers = 200000;
inline constexpr int kMaxSubgraphDepth = 16;
inline constexpr size_t kMaxNameLength = 1024;

// Checks a model. INVALID_ARGUMENT names the node or value and the rule.
absl::Status CheckModel(const onnx::ModelProto& model);

}  // namespace gpupool::engine::onnx_import
