// Gives every batch norm tensors of its own. Exporters store equal tensors
// once: in a net that was not trained yet, all scales are one tensor of ones,
// and all means and shifts one tensor of zeros. Trained as they stand, these
// would be tied together, and running means would be trained. Pure.
#pragma once

namespace onnx {
class ModelProto;
}

namespace gpupool::engine::onnx_import {

// Inputs 1 to 4 of BatchNormalization nodes of the main graph that other
// inputs read as well get copies, named "<tensor>/<position of the
// node>.<input>", as long as these have at most 65,536 elements each and 64 MiB
// in sum; larger ones stay shared. The model must have passed CheckModel.
void UnshareNorms(onnx::ModelProto& model);

}  // namespace gpupool::engine::onnx_import
