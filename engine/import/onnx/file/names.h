// Names of nodes and operator domains of ONNX models, for messages and tables.
// Pure functions.
#pragma once

#include <google/protobuf/repeated_field.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace onnx {
class NodeProto;
class OperatorSetIdProto;
}  // namespace onnx

namespace gpupool::engine::onnx_import {

// Returns "" for the standard domain, which may also be written "ai.onnx".
inline absl::string_view NormalDomain(absl::string_view domain) {
  return domain == "ai.onnx" ? absl::string_view() : domain;
}

// Returns the imported version of the standard domain, or `otherwise`.
int64_t StandardOpset(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports,
    int64_t otherwise);

// Returns the node's name, or that of its first output if it has none.
absl::string_view NodeName(const onnx::NodeProto& node);

// Returns operator and name, as "Conv 'conv1'".
std::string NodeTitle(const onnx::NodeProto& node);

}  // namespace gpupool::engine::onnx_import
