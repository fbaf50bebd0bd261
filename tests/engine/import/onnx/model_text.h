// ONNX models written in the text format of onnx/defs/parser.h, for tests.
#pragma once

#include <string>

#include "onnx/onnx_pb.h"

namespace gpupool::engine::onnx_import {

// Aborts when the text does not parse.
onnx::ModelProto ModelFromText(const std::string& text);
// A model of opset 17 with the graph "agraph <graph>".
onnx::ModelProto ModelOfGraph(const std::string& graph);

}  // namespace gpupool::engine::onnx_import
