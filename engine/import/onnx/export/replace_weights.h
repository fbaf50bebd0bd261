// An ONNX model with other weights: how trained versions of it are exported.
// Pure functions but for reads of external files.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/import/model_source.h"
#include "engine/import/onnx/file/onnx_file.h"

namespace gpupool::engine::onnx_import {

// A serialized ModelProto: the file's own, with the elements of initializers
// replaced by the weights of their stored names; the others keep theirs.
// External data are taken into the file. Where `weights` have "input.scale" and
// "input.shift" the first input is scaled by nodes in front.
//   INVALID_ARGUMENT  the result would be larger than an ONNX file can be, or
//                     a weight has another type than its initializer
absl::StatusOr<std::string> ReplaceWeights(
    const OnnxFile& file, const std::vector<WeightTensor>& weights);

}  // namespace gpupool::engine::onnx_import
