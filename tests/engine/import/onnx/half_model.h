// Converts float32 ONNX models to float16 or bfloat16, as converters do for
// users, for tests.
#pragma once

#include <string>
#include <vector>

#include "onnx/onnx_pb.h"

namespace gpupool::engine::onnx_import {

// Adds a FLOAT initializer with numbers in [-scale, scale) that its name
// determines.
void AddWeight(const std::string& name, const std::vector<int64_t>& dims,
               double scale, onnx::ModelProto& model);

struct HalfOptions {
  int data_type = onnx::TensorProto::FLOAT16;
  // Whether inputs and outputs stay FLOAT, with a Cast next to each.
  bool keep_ports = false;
};
// Converts all FLOAT tensors, ports and casts of the main graph.
void ToHalf(const HalfOptions& options, onnx::ModelProto& model);

// Rounds the FLOAT initializers to numbers of that type; they stay FLOAT.
void RoundWeights(int data_type, onnx::ModelProto& model);

}  // namespace gpupool::engine::onnx_import
