// Cuts one stage out of the graph of an import. Pure.
#pragma once

#include <cstddef>
#include <vector>

#include "engine/import/onnx/graph/stages.h"
#include "engine/model/layer_spec.h"

namespace gpupool::engine::onnx_import {

struct StageParts {
  size_t first_node = 0;             // of the stage
  std::vector<StageOutput> outputs;  // of the stage
  // Values that later stages may read, in any order and number.
  ValueIds live;
};

// Reduces the graph to the nodes that the outputs of the stage and its live
// values need. Values that earlier stages computed from the model's inputs
// become inputs; those that follow from weights are computed again.
// `model.inputs` become the inputs that the stage reads, `model.outputs` its
// outputs: those of `parts`, then the live values that it computes. Persistents
// that it does not read are dropped. Returns the names of the live values,
// without inputs of the model.
std::vector<std::string> SplitStage(const StageParts& parts, ModelGraph& model);

}  // namespace gpupool::engine::onnx_import
