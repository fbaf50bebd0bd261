#include "engine/import/onnx/file/names.h"

#include <onnx/onnx_pb.h>

#include "absl/strings/str_cat.h"

namespace gpupool::engine::onnx_import {

int64_t StandardOpset(
    const google::protobuf::RepeatedPtrField<onnx::OperatorSetIdProto>& imports,
    int64_t otherwise) {
  for (const auto& import : imports) {
    if (NormalDomain(import.domain()).empty()) return import.version();
  }
  return otherwise;
}

absl::string_view NodeName(const onnx::NodeProto& node) {
  // An unnamed node goes by its first output.
  if (!node.name().empty() || node.output_size() == 0) return node.name();
  return node.output(0);
}

std::string NodeTitle(const onnx::NodeProto& node) {
  return absl::StrCat(node.op_type(), " '", NodeName(node), "'");
}

}  // namespace gpupool::engine::onnx_import
