// Models of texts: ONNX files whose tensors are texts and small numbers. They
// become a program that the server computes by itself.
//
// Pure functions.
#pragma once

#include <cstdint>

#include "absl/status/statusor.h"
#include "gpupool/v1/model.pb.h"

namespace onnx {
class ModelProto;
}  // namespace onnx

namespace gpupool::engine::onnx_import {

class OnnxFile;

// Most bytes of the program of a model, which is stored with the version.
inline constexpr uint64_t kMaxTextProgramBytes = uint64_t{256} << 10;
// Largest size of a dimension that has none in the file.
inline constexpr int64_t kMaxOpenTextSize = int64_t{1} << 16;

// Returns whether the file is a model of texts: an input has texts, or an
// output has and all nodes are of operators that such a model may have. A
// classifier of numbers whose labels are texts is none.
bool HasTexts(const onnx::ModelProto& model);

// Returns the plan of a model of texts: its program, inputs and outputs. It has
// a batch dimension if the first dimensions of all inputs and outputs have no
// size and one name.
//   UNIMPLEMENTED     a node that models of texts cannot have; names it
//   INVALID_ARGUMENT  the graph is wrong, or too large
absl::StatusOr<v1::Plan> PlanTexts(const OnnxFile& file,
                                   const v1::OnnxModel& model);

}  // namespace gpupool::engine::onnx_import
