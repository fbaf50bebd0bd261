// If, Loop and Scan, resolved while importing: a branch is taken when its
// condition is known, loops are unrolled. Internal to the import of ONNX.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace onnx {
class NodeProto;
}

namespace gpupool::engine::onnx_import {

class GraphImporter;

// Imports one node that no lowering can: it has subgraphs or sequences.
using NodeImport = absl::Status (*)(GraphImporter&, const onnx::NodeProto&);

// Iterations of one loop.
inline constexpr int kMaxLoopIterations = 10000;

// Null for every other operator.
NodeImport FindControlFlow(absl::string_view name);

}  // namespace gpupool::engine::onnx_import
