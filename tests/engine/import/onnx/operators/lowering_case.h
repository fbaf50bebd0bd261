// Imports a few ONNX nodes that are written as text and runs them with the
// reference interpreter, for the tests of lowerings.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/import/onnx/graph/node_context.h"
#include "engine/import/onnx/graph/onnx_import.h"

namespace gpupool::engine::onnx_import {

// Returns a float32 tensor of that shape.
HostTensor Floats(std::vector<int64_t> dims, std::vector<double> numbers);
HostTensor Ints(std::vector<int64_t> dims, std::vector<double> numbers);

struct LoweringCase {
  int opset = 17;
  // The part after "agraph" in ONNX's text format: "(float[2] x) => (float[2]
  // y) { y = Relu(x) }".
  std::string graph;
  // Inputs by name. Those that are not bound are inputs of the graph's program.
  std::map<std::string, HostTensor> inputs;
  std::vector<std::string> bound;
  bool training = false;
  // Whether the model also imports "ai.onnx.preview.training" version 1.
  bool training_domain = false;
  // Other operator sets that the model imports: {{"com.microsoft", 1}}.
  std::map<std::string, int> domains;
};

// Returns the outputs in the order of the text, or the import's error.
absl::StatusOr<std::vector<HostTensor>> RunLowering(const LoweringCase& one);
absl::StatusOr<ModelGraph> ImportLowering(const LoweringCase& one);

// Returns the number of nodes of the graph with that op.
int CountOps(const Graph& graph, Op op);

}  // namespace gpupool::engine::onnx_import
