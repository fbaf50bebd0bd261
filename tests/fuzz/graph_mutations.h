// Changes a real model into one like it: other types, sizes, attributes,
// operators and kinds of inputs, and more nodes behind its outputs. Pure
// functions of the dice.
#pragma once

#include <onnx/onnx_pb.h>

#include <functional>
#include <string>
#include <vector>

#include "tests/fuzz/graph_writer.h"

namespace gpupool::engine::fuzz {

// Returns the model after one to three changes. The result need not be a valid
// model.
onnx::ModelProto MutateGraph(onnx::ModelProto model, uint64_t seed,
                             const GraphWriter::Observer& observer);

// Returns small official models of ONNX in a fixed order; none if the package
// libonnx-testdata is not installed.
std::vector<onnx::ModelProto> OfficialModels();
// Returns models that the engine exports from random chains of layers.
std::vector<onnx::ModelProto> LayerModels(int count);

}  // namespace gpupool::engine::fuzz
