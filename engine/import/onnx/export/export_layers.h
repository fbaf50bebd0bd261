// From a chain of layers with its weights to an ONNX model: what onnx.checker
// accepts and ONNX Runtime runs with the same results. Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/import/model_source.h"

namespace gpupool::v1 {
class ModelSpec;
}  // namespace gpupool::v1

namespace gpupool::engine::onnx_import {

// A serialized ModelProto, operator set 17. `model` is the graph that was
// built of `spec`; `weights` are all of its persistent values. Nodes and values
// are named after the layers; the batch is the dimension "batch".
absl::StatusOr<std::string> ExportLayers(
    const v1::ModelSpec& spec, const ModelGraph& model,
    const std::vector<WeightTensor>& weights);

}  // namespace gpupool::engine::onnx_import
