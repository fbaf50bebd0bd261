// A node of an ONNX file as a node of a TextProgram.
//
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "gpupool/v1/model.pb.h"

namespace onnx {
class NodeProto;
}  // namespace onnx

namespace gpupool::engine::onnx_import {

class ExternalFiles;

// A node without the numbers of its inputs.
struct TextNode {
  v1::TextProgram::Node node;
  std::vector<std::string> inputs;  // names of values
  // An input that follows the others: the axes of older operator sets.
  std::vector<v1::TextTensor> added;
};

// Returns whether a model of texts may have a node of this operator.
bool IsTextOperator(const onnx::NodeProto& node);

// Returns the node. UNIMPLEMENTED for an operator that models of texts do not
// have, or for an attribute that is not carried out; INVALID_ARGUMENT for a
// wrong attribute. Errors name the node.
absl::StatusOr<TextNode> ReadTextNode(const onnx::NodeProto& node,
                                      const ExternalFiles& external);

// Returns the value of a Constant. Errors as ReadTextNode.
absl::StatusOr<v1::TextTensor> ReadTextConstantNode(
    const onnx::NodeProto& node, const ExternalFiles& external);

}  // namespace gpupool::engine::onnx_import
