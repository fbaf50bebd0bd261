#include "tests/engine/import/onnx/model_text.h"

#include <onnx/defs/parser.h>

#include "engine/base/check.h"

namespace gpupool::engine::onnx_import {

onnx::ModelProto ModelFromText(const std::string& text) {
  onnx::ModelProto model;
  onnx::OnnxParser parser(text.c_str());
  const auto status = parser.Parse(model);
  if (!status.IsOK()) {
    std::fprintf(stderr, "%s\n", status.ErrorMessage().c_str());
  }
  GPUPOOL_CHECK(status.IsOK());
  return model;
}

onnx::ModelProto ModelOfGraph(const std::string& graph) {
  return ModelFromText("<ir_version: 8, opset_import: [\"\" : 17]> agraph " +
                       graph);
}

}  // namespace gpupool::engine::onnx_import
