#include "tests/engine/import/onnx/model_text.h"

#include <onnx/defs/parser.h>

#include "engine/base/check.h"

namespace gpupool::engine::onnx_import {
namespace {

// Gives inputs of nodes that are called "_" no name, also in subgraphs.
void LeaveOutInputs(onnx::GraphProto& graph) {
  for (onnx::NodeProto& node : *graph.mutable_node()) {
    for (std::string& input : *node.mutable_input()) {
      if (input == "_") input.clear();
    }
    for (onnx::AttributeProto& attribute : *node.mutable_attribute()) {
      if (attribute.has_g()) LeaveOutInputs(*attribute.mutable_g());
    }
  }
}

}  // namespace

onnx::ModelProto ModelFromText(const std::string& text) {
  onnx::ModelProto model;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(model);
  if (!status.IsOK()) {
    std::fprintf(stderr, "%s\n", status.ErrorMessage().c_str());
  }
  GPUPOOL_CHECK(status.IsOK());
  LeaveOutInputs(*model.mutable_graph());
  return model;
}

onnx::ModelProto ModelOfGraph(const std::string& graph) {
  return ModelFromText("<ir_version: 8, opset_import: [\"\" : 17]> agraph " +
                       graph);
}

}  // namespace gpupool::engine::onnx_import
