// Runs an imported ONNX model on the CPU back end, with all passes, and gives
// its outputs as numbers. For tests against expected numbers or against the
// reference. Pure functions of their arguments.
#pragma once

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "engine/import/onnx/file/host_tensor.h"
#include "engine/import/onnx/file/onnx_file.h"
#include "engine/model/layer_spec.h"

namespace gpupool::engine::onnx_import {

using TensorsByName = std::map<std::string, HostTensor>;

struct CpuRunOptions {
  int threads = 1;
  // The type of products and of the ops between them (PassOptions::compute).
  DType compute = DType::kFloat32;
};

// Compiles the model and runs it once. `inputs` holds a tensor for each port.
// Returns every output port by name. Outputs that were computed at import need
// no program. Errors are those of the passes, the compiler and the run.
absl::StatusOr<TensorsByName> RunModelOnCpu(const OnnxFile& file,
                                            const ModelGraph& model,
                                            const TensorsByName& inputs,
                                            const CpuRunOptions& options = {});

}  // namespace gpupool::engine::onnx_import
