// Numbers for inputs of an ONNX model, in the shapes that the model declares.
// Pure functions.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/graph/node_context.h"
#include "engine/import/onnx/graph/onnx_import.h"

namespace gpupool::engine::onnx_import {

// The tensors for OnnxBuildOptions::bound. One dimension without a size is as
// large as the numbers make it. InvalidArgument when the model has no such
// input, or the numbers do not fill its declared shape.
absl::StatusOr<absl::flat_hash_map<std::string, HostTensor>> BindInputs(
    const OnnxFile& file, const OnnxBuildOptions& options,
    const absl::flat_hash_map<std::string, std::vector<double>>& numbers);

}  // namespace gpupool::engine::onnx_import
