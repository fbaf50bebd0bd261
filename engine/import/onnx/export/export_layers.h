// Exports a chain of layers with its weights as an ONNX model. onnx.checker
// accepts the model, and ONNX Runtime computes the same results. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/model_source.h"

namespace gpupool::v1 {
class ModelSpec;
}  // namespace gpupool::v1

namespace gpupool::engine::onnx_import {

// Returns a serialized ModelProto of operator set 17. `model` must be built
// from `spec`, and `weights` must hold all of its persistent values. Nodes and
// values have the names of the layers. The batch is the dimension "batch".
absl::StatusOr<std::string> ExportLayers(
    const v1::ModelSpec& spec, const ModelGraph& model,
    const std::vector<WeightTensor>& weights);

}  // namespace gpupool::engine::onnx_import
