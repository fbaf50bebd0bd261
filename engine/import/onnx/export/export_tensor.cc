#include "engine/import/onnx/export/export_tensor.h"

#include <onnx/onnx_pb.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/import/onnx/file/tensor_data.h"
#include "engine/tensor/convert.h"

namespace gpupool::engine::onnx_import {

absl::Status CheckExportBytes(const std::vector<WeightTensor>& weights) {
  uint64_t bytes = 0;
  for (const WeightTensor& weight : weights) bytes += weight.bytes.size();
  if (bytes <= kMaxExportBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the weights have ", bytes, " bytes, but one ONNX file holds at most ",
      kMaxExportBytes, "; export them as safetensors"));
}

absl::StatusOr<std::string> RoundToHalf(const WeightTensor& weight,
                                        DType half) {
  const auto count = static_cast<size_t>(weight.shape.elements());
  std::string bytes(count * SizeOf(half), '\0');
  auto* const to = reinterpret_cast<std::byte*>(bytes.data());
  ConvertElements({weight.dtype, weight.bytes.data()}, {half, to},
                  weight.shape.elements());
  std::vector<double> rounded(count);
  ReadAsDoubles(half, to, 1, absl::MakeSpan(rounded));
  for (size_t i = 0; i < count; ++i) {
    if (std::isfinite(rounded[i])) continue;
    double number = 0;
    ReadAsDoubles(weight.dtype, weight.bytes.data() + i * SizeOf(weight.dtype),
                  1, absl::MakeSpan(&number, 1));
    if (!std::isfinite(number)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "weight \"", weight.name, "\" has the number ", number,
        ", which is too large for the ", DTypeName(half),
        " that the file keeps it in; export the weights as safetensors, which ",
        "are float32"));
  }
  return bytes;
}

void FillTensor(const WeightTensor& weight, onnx::TensorProto& tensor) {
  tensor.Clear();
  tensor.set_name(weight.name);
  tensor.set_data_type(OnnxType(weight.dtype));
  for (int64_t dimension : weight.shape.dims()) tensor.add_dims(dimension);
  tensor.set_raw_data(weight.bytes.data(), weight.bytes.size());
}

}  // namespace gpupool::engine::onnx_import
