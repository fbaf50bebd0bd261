// Writes weights as tensors of an ONNX file. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
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

// Returns the numbers of a float32 weight in a 16-bit type, as bytes.
// INVALID_ARGUMENT names the weight and a finite number that the type cannot
// hold.
absl::StatusOr<std::string> RoundToHalf(const WeightTensor& weight, DType half);

// Fills in name, type, shape and elements. Removes what `tensor` held before.
void FillTensor(const WeightTensor& weight, onnx::TensorProto& tensor);

}  // namespace gpupool::engine::onnx_import
