// Checks that the names in the options of an ONNX model are names of the model.
// Pure functions.
#pragma once

#include "absl/status/status.h"

namespace onnx {
class GraphProto;
}  // namespace onnx

namespace gpupool::v1 {
class OnnxModel;
}  // namespace gpupool::v1

namespace gpupool::engine::onnx_import {

// Returns INVALID_ARGUMENT when the options name an input or a dimension that
// the graph does not have. Lists the names that are wrong and those that exist.
// The names of dimensions are those of inputs and outputs, and those in
// expressions such as "past + sequence".
absl::Status CheckNames(const v1::OnnxModel& model,
                        const onnx::GraphProto& graph);

}  // namespace gpupool::engine::onnx_import
