// Writes an ONNX model with other weights, to export trained versions. Pure
// functions except for reads of external files.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/model/model_source.h"

namespace gpupool::engine::onnx_import {

// Returns a serialized ModelProto: the file's own, in which `weights` replace
// the initializers of their stored names. Other initializers, and those of
// element types that are widened, keep their elements. Nodes in training mode
// are turned into those that are served (inference_nodes.h). External data
// becomes part of the result. If "input.scale" and "input.shift" are among the
// weights, nodes in front scale the first input.
//   INVALID_ARGUMENT  the result is too large for an ONNX file, or a weight has
//                     another type than its initializer
absl::StatusOr<std::string> ReplaceWeights(
    const OnnxFile& file, const std::vector<WeightTensor>& weights);

}  // namespace gpupool::engine::onnx_import
