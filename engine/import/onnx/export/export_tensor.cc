#include "engine/import/onnx/export/export_tensor.h"

#include <onnx/onnx_pb.h>

#include "absl/strings/str_cat.h"
#include "engine/import/onnx/file/tensor_data.h"

namespace gpupool::engine::onnx_import {

absl::Status CheckExportBytes(const std::vector<WeightTensor>& weights) {
  uint64_t bytes = 0;
  for (const WeightTensor& weight : weights) bytes += weight.bytes.size();
  if (bytes <= kMaxExportBytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "the weights have ", bytes, " bytes, but one ONNX file holds at most ",
      kMaxExportBytes, "; export them as safetensors"));
}

void FillTensor(const WeightTensor& weight, onnx::TensorProto& tensor) {
  tensor.Clear();
  tensor.set_name(weight.name);
  tensor.set_data_type(OnnxType(weight.dtype));
  for (int64_t dimension : weight.shape.dims()) tensor.add_dims(dimension);
  tensor.set_raw_data(weight.bytes.data(), weight.bytes.size());
}

}  // namespace gpupool::engine::onnx_import
