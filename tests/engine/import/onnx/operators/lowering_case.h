// Imports a few ONNX nodes written as text and runs them with the reference
// interpreter, for the tests of lowerings.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/import/onnx/graph/node_context.h"
#include "engine/import/onnx/graph/onnx_import.h"

namespace gpupool::engine::onnx_import {

// float32 of that shape.
HostTensor Floats(std::vector<int64_t> dims, std::vector<double> numbers);
HostTensor Ints(std::vector<int64_t> dims, std::vector<double> numbers);

struct LoweringCase {
  int opset = 17;
  // What follows "agraph" in ONNX's text format:
  // "(float[2] x) => (float[2] y) { y = Relu(x) }".
  std::string graph;
  // By name; all are inputs of the graph's program unless bound.
  std::map<std::string, HostTensor> inputs;
  std::vector<std::string> bound;
  bool training = false;
  // Beside "": "ai.onnx.preview.training" version 1.
  bool training_domain = false;
};

// The outputs in the order of the text. Errors of the import pass through.
absl::StatusOr<std::vector<HostTensor>> RunLowering(const LoweringCase& one);
absl::StatusOr<ModelGraph> ImportLowering(const LoweringCase& one);

// How many nodes of the graph are of that op.
int CountOps(const Graph& graph, Op op);

}  // namespace gpupool::engine::onnx_import
