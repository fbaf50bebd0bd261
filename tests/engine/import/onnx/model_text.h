// ONNX models written in the text format of onnx/defs/parser.h, for tests.
#pragma once

#include <string>

#include "onnx/onnx_pb.h"

namespace gpupool::engine::onnx_import {

// Parses the text. Aborts when it does not parse. `_` is an input that is left
// out: the parser of onnx 1.12 knows no other way to leave out the first one.
onnx::ModelProto ModelFromText(const std::string& text);
// Returns a model of opset 17 with the graph "agraph <graph>".
onnx::ModelProto ModelOfGraph(const std::string& graph);

}  // namespace gpupool::engine::onnx_import
