// Finds what exporters did to a model that changes results without an error.
// Each warning names the cause and the remedy. Pure functions over a model that
// has passed CheckModel.
#pragma once

#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "engine/import/onnx/file/buffers.h"

namespace onnx {
class ModelProto;
}

namespace gpupool::engine::onnx_import {

// Returns warnings for everyone:
//   - a first dimension with a fixed size in every input, which excludes
//   batches
//   - batch norms that may have been folded into convolutions
std::vector<std::string> ModelTraps(const onnx::ModelProto& model);

// Returns warnings about training the model:
//   - tensors that several nodes read, which are trained as one
//   - training mode in an operator set that does not define it
//   - evaluation mode, in which PyTorch leaves out dropout
//
// `buffers` are tensors that are not trained anyway.
std::vector<std::string> TrainingTraps(
    const onnx::ModelProto& model,
    const absl::flat_hash_set<std::string>& buffers = {});

// Returns the warning that these tensors are taken for buffers, with reasons
// and the remedy. At least one is needed.
std::string BufferTrap(const std::vector<Buffer>& buffers);

}  // namespace gpupool::engine::onnx_import
