// Gives every batch norm its own tensors. Exporters store equal tensors once:
// in an untrained net, all scales are one tensor of ones, and all means and
// shifts are one tensor of zeros. Without copies, training would tie the scales
// together and would train the running means. Pure.
#pragma once

namespace onnx {
class ModelProto;
}

namespace gpupool::engine::onnx_import {

// Copies inputs 1 to 4 of BatchNormalization nodes of the main graph that are
// also read by other inputs. A copy is named "<tensor>/<position of the
// node>.<input>". Tensors of more than 65,536 elements stay shared, and so do
// those after the first 64 MiB of copies. The model must have passed
// CheckModel.
void UnshareNorms(onnx::ModelProto& model);

}  // namespace gpupool::engine::onnx_import
