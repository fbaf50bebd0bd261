#include "engine/import/onnx/text/text_constants.h"

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/import/onnx/file/external_files.h"
#include "engine/import/onnx/file/host_tensor.h"
#include "engine/import/onnx/file/tensor_data.h"

namespace gpupool::engine::onnx_import {
namespace {

using onnx::TensorProto;

absl::Status CheckTextElements(const TensorProto& tensor) {
  int64_t elements = 1;
  for (const int64_t size : tensor.dims()) {
    if (size < 0 || __builtin_mul_overflow(elements, size, &elements)) {
      elements = -1;
      break;
    }
  }
  if (elements == tensor.string_data_size()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor '", tensor.name(), "' has ",
                   tensor.string_data_size(), " texts, and its shape takes ",
                   elements < 0 ? "another number" : absl::StrCat(elements)));
}

}  // namespace

absl::StatusOr<v1::DataType> TextDataType(int onnx_type) {
  switch (onnx_type) {
    case TensorProto::STRING:
      return v1::STRING;
    case TensorProto::FLOAT:
      return v1::FLOAT32;
    case TensorProto::DOUBLE:
      return v1::FLOAT64;
    case TensorProto::BOOL:
      return v1::BOOL;
    case TensorProto::INT8:
      return v1::INT8;
    case TensorProto::UINT8:
      return v1::UINT8;
    case TensorProto::INT16:
      return v1::INT16;
    case TensorProto::UINT16:
      return v1::UINT16;
    case TensorProto::INT32:
      return v1::INT32;
    case TensorProto::UINT32:
      return v1::UINT32;
    case TensorProto::INT64:
      return v1::INT64;
    default:
      return absl::UnimplementedError(
          absl::StrCat("element type ", OnnxTypeName(onnx_type),
                       " is not supported in a model with texts"));
  }
}

absl::StatusOr<v1::TextTensor> TextConstant(const TensorProto& tensor,
                                            const ExternalFiles& external) {
  v1::TextTensor constant;
  ASSIGN_OR_RETURN(const v1::DataType type, TextDataType(tensor.data_type()));
  constant.set_data_type(type);
  constant.mutable_shape()->Add(tensor.dims().begin(), tensor.dims().end());
  if (type == v1::STRING) {
    RETURN_IF_ERROR(CheckTextElements(tensor));
    constant.mutable_texts()->Add(tensor.string_data().begin(),
                                  tensor.string_data().end());
    return constant;
  }
  // Numbers above 2^53 are of no use beside texts, and are refused.
  ASSIGN_OR_RETURN(const HostTensor numbers, ReadTensor(tensor, external));
  const bool floating = type == v1::FLOAT32 || type == v1::FLOAT64;
  constexpr double kExact = 9007199254740992.0;
  for (const double number : numbers.numbers) {
    if (floating) {
      constant.add_floats(number);
    } else if (number > -kExact && number < kExact) {
      constant.add_integers(static_cast<int64_t>(number));
    } else {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor '", tensor.name(),
                       "' has integers beyond 2^53, which a model with texts "
                       "cannot have"));
    }
  }
  return constant;
}

}  // namespace gpupool::engine::onnx_import
