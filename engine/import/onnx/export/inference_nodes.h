// Turns a model that was exported in training mode into the one that is served.
// Pure functions.
#pragma once

namespace onnx {
class ModelProto;
}

namespace gpupool::engine::onnx_import {

// Makes batch norms use their stored statistics, and dropouts keep everything,
// as the importer's inference programs do. A batch norm whose statistics are
// not stored in the file is served in training mode and stays as it is.
void UseInferenceNodes(onnx::ModelProto& model);

}  // namespace gpupool::engine::onnx_import
