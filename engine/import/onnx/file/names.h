// Names of nodes and operator domains of ONNX models, for messages and tables.
// Pure functions.
#pragma once

#include <string>

#include "absl/strings/string_view.h"

namespace onnx {
class NodeProto;
}

namespace gpupool::engine::onnx_import {

// Returns "" for the standard domain, which may also be written "ai.onnx".
inline absl::string_view NormalDomain(absl::string_view domain) {
  return domain == "ai.onnx" ? absl::string_view() : domain;
}

// Returns the node's name, or that of its first output if it has none.
absl::string_view NodeName(const onnx::NodeProto& node);

// Returns operator and name, as "Conv 'conv1'".
std::string NodeTitle(const onnx::NodeProto& node);

}  // namespace gpupool::engine::onnx_import
