// Sequence and optional operators. Their lists exist only during the import.
// Internal to the import of ONNX.
#pragma once

#include "engine/import/onnx/graph/control_flow.h"

namespace gpupool::engine::onnx_import {

// Most elements of one sequence.
inline constexpr size_t kMaxSequenceLength = 100000;

// Returns null for an ordinary operator. Identity is a sequence operator when
// its input is no tensor.
NodeImport FindSequenceOperator(const GraphImporter& importer,
                                const onnx::NodeProto& node);
bool IsSequenceOperator(absl::string_view name);

}  // namespace gpupool::engine::onnx_import
