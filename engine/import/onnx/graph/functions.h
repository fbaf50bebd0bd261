// Operators that are functions of other operators: their bodies, and the
// caller's attributes in them. Internal to the import of ONNX.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace onnx {
class FunctionProto;
class NodeProto;
}  // namespace onnx

namespace gpupool::engine::onnx_import {

class GraphImporter;

// Returns whether libonnx defines this version of the operator as a function of
// other operators.
bool HasSchemaFunction(absl::string_view domain, absl::string_view name,
                       int opset);

// Returns the function's body for this node, which may depend on the types of
// its inputs. Null when the operator is no function.
absl::StatusOr<const onnx::FunctionProto*> SchemaFunction(
    GraphImporter& importer, const onnx::NodeProto& node, int opset);

// Returns a node of a function's body with references to the caller's
// attributes resolved: replaced by the caller's values or the schema's
// defaults, or else removed.
absl::StatusOr<const onnx::NodeProto*> FillAttributes(
    GraphImporter& importer, const onnx::NodeProto& inner,
    const onnx::NodeProto& caller);

}  // namespace gpupool::engine::onnx_import
