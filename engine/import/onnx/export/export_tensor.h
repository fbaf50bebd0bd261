// Weights as tensors of an ONNX file. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/import/model_source.h"

namespace onnx {
class TensorProto;
}  // namespace onnx

namespace gpupool::engine::onnx_import {

// Most bytes of a protobuf message, hence of an ONNX file, with room for what
// is not weights.
inline constexpr uint64_t kMaxExportBytes =
    (uint64_t{1} << 31) - (uint64_t{16} << 20);

// InvalidArgument, naming both numbers, when the weights have more.
absl::Status CheckExportBytes(const std::vector<WeightTensor>& weights);

// Name, type, shape and elements; whatever `tensor` held is gone.
void FillTensor(const WeightTensor& weight, onnx::TensorProto& tensor);

}  // namespace gpupool::engine::onnx_import
