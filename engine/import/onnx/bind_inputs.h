// Shapes numbers for inputs of an ONNX model as the model declares. Pure
// functions.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/import/onnx/graph/node_context.h"
#include "engine/import/onnx/graph/onnx_import.h"

namespace gpupool::engine::onnx_import {

// Returns the tensors for OnnxBuildOptions::bound. One dimension may have no
// size: it follows from the number of elements. INVALID_ARGUMENT when the model
// has no such input or the numbers do not fill the declared shape.
absl::StatusOr<absl::flat_hash_map<std::string, HostTensor>> BindInputs(
    const OnnxFile& file, const OnnxBuildOptions& options,
    const absl::flat_hash_map<std::string, std::vector<double>>& numbers);

}  // namespace gpupool::engine::onnx_import
