// Writes weights as tensors of an ONNX file. Pure functions.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/model/model_source.h"

namespace onnx {
class TensorProto;
}  // namespace onnx

namespace gpupool::engine::onnx_import {

// Most bytes of weights: those of a protobuf message, less room for everything
// else.
inline constexpr uint64_t kMaxExportBytes =
    (uint64_t{1} << 31) - (uint64_t{16} << 20);

// Returns INVALID_ARGUMENT with both numbers when the weights have more bytes.
absl::Status CheckExportBytes(const std::vector<WeightTensor>& weights);

// Fills in name, type, shape and elements. Removes what `tensor` held before.
void FillTensor(const WeightTensor& weight, onnx::TensorProto& tensor);

}  // namespace gpupool::engine::onnx_import
