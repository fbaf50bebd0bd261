// Sequence and optional operators: lists that exist only while importing.
// Internal to the import of ONNX.
#pragma once

#include "engine/import/onnx/graph/control_flow.h"

namespace gpupool::engine::onnx_import {

// Elements of one sequence.
inline constexpr size_t kMaxSequenceLength = 100000;

// Null when the node is an ordinary operator. Identity is one of these where
// its input is no tensor.
NodeImport FindSequenceOperator(const GraphImporter& importer,
                                const onnx::NodeProto& node);
bool IsSequenceOperator(absl::string_view name);

}  // namespace gpupool::engine::onnx_import
