// Bodies of operators that are functions of other operators, and attributes of
// the caller in them. Internal to the import of ONNX.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace onnx {
class FunctionProto;
class NodeProto;
}  // namespace onnx

namespace gpupool::engine::onnx_import {

class GraphImporter;

// Whether libonnx knows the operator of that version as a function of other
// operators.
bool HasSchemaFunction(absl::string_view domain, absl::string_view name,
                       int opset);

// The body for this node, which may depend on its inputs' types; null when the
// operator is no function.
absl::StatusOr<const onnx::FunctionProto*> SchemaFunction(
    GraphImporter& importer, const onnx::NodeProto& node, int opset);

// A node of a function's body with the attributes that refer to the caller's
// replaced by these, by the schema's defaults, or left out.
absl::StatusOr<const onnx::NodeProto*> FillAttributes(
    GraphImporter& importer, const onnx::NodeProto& inner,
    const onnx::NodeProto& caller);

}  // namespace gpupool::engine::onnx_import
