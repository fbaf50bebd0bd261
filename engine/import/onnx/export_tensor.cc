#include "engine/import/onnx/export_tensor.h"

#include <onnx/onnx_pb.h>

#include "absl/strings/str_cat.h"

namespace gpupool::engine::onnx_import {
namespace {

onnx::TensorProto::DataType OnnxType(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return onnx::TensorProto::FLOAT;
    case DType::kFloat64:
      return onnx::TensorProto::DOUBLE;
    case DType::kInt32:
      return onnx::TensorProto::INT32;
    case DType::kInt64:
      return onnx::TensorProto::INT64;
    case DType::kUint8:
      return onnx::TensorProto::UINT8;
    case DType::kBool:
      return onnx::TensorProto::BOOL;
    case DType::kInt8:
      return onnx::TensorProto::INT8;
    case DType::kFloat16:
      return onnx::TensorProto::FLOAT16;
    case DType::kBFloat16:
      return onnx::TensorProto::BFLOAT16;
  }
  return onnx::TensorProto::UNDEFINED;
}

}  // namespace

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
