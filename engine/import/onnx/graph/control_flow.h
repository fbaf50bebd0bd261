// Resolves If, Loop and Scan while importing: takes a branch whose condition is
// known and unrolls loops. In stages (stages.h) conditions and trip counts may
// be computed. Internal to the import of ONNX.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace onnx {
class NodeProto;
}

namespace gpupool::engine::onnx_import {

class GraphImporter;

// Imports a node with subgraphs or sequences, which no lowering can.
using NodeImport = absl::Status (*)(GraphImporter&, const onnx::NodeProto&);

// Most iterations of one loop.
inline constexpr int kMaxLoopIterations = 10000;

// Returns null for every other operator.
NodeImport FindControlFlow(absl::string_view name);

}  // namespace gpupool::engine::onnx_import
