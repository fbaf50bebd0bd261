// Makes the graph of a model in float16 or bfloat16 compute in float32. Pure.
#pragma once

#include "absl/status/status.h"
#include "engine/model/layer_spec.h"

namespace gpupool::engine::onnx_import {

struct WidenModelOptions {
  // Whether inputs and outputs become float32, too. Otherwise they keep their
  // types, and are cast once.
  bool ports = false;
  // Whether nodes that only round to 16 bits vanish.
  bool roundings = false;
};

// Rewrites the graph as engine/passes/formats/widen_halves.h describes, and
// updates the ports and persistents. The graph must declare no outputs.
absl::Status WidenModel(const WidenModelOptions& options, ModelGraph& model);

}  // namespace gpupool::engine::onnx_import
