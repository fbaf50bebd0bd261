#include "server/serving/text/text_tensor.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"

namespace gpupool::server {

absl::StatusOr<TextKind> TextKindOf(v1::DataType type) {
  switch (type) {
    case v1::STRING:
      return TextKind::kText;
    case v1::FLOAT32:
    case v1::FLOAT64:
      return TextKind::kFloat;
    case v1::BOOL:
    case v1::INT8:
    case v1::UINT8:
    case v1::INT16:
    case v1::UINT16:
    case v1::INT32:
    case v1::UINT32:
    case v1::INT64:
      return TextKind::kInteger;
    default:
      return engine::Refuse(
          "a model of texts has the type ", v1::DataType_Name(type),
          "; it may have STRING, FLOAT32, FLOAT64, BOOL and integers "
          "other than UINT64");
  }
}

TextKind TextTensor::kind() const {
  if (type == v1::STRING) return TextKind::kText;
  return type == v1::FLOAT32 || type == v1::FLOAT64 ? TextKind::kFloat
                                                    : TextKind::kInteger;
}

uint64_t TextTensor::size() const {
  return Visit([](const auto& list) { return uint64_t{list.size()}; });
}

std::vector<absl::string_view>& ListLike(
    const std::vector<absl::string_view>& /*like*/, TextTensor& tensor) {
  return tensor.texts;
}

std::vector<int64_t>& ListLike(const std::vector<int64_t>& /*like*/,
                               TextTensor& tensor) {
  return tensor.integers;
}

std::vector<double>& ListLike(const std::vector<double>& /*like*/,
                              TextTensor& tensor) {
  return tensor.floats;
}

absl::StatusOr<uint64_t> TextElements(absl::Span<const int64_t> shape) {
  uint64_t elements = 1;
  for (const int64_t size : shape) {
    if (size < 0 ||
        __builtin_mul_overflow(elements, static_cast<uint64_t>(size),
                               &elements) ||
        elements > kMostTextElements) {
      return engine::Refuse(
          "a tensor has the shape [", absl::StrJoin(shape, ","),
          "]; it may have at most ", kMostTextElements, " elements");
    }
  }
  return elements;
}

absl::StatusOr<TextTensor> ViewConstant(const v1::TextTensor& constant) {
  TextTensor tensor;
  tensor.type = constant.data_type();
  RETURN_IF_ERROR(TextKindOf(tensor.type).status());
  tensor.shape.assign(constant.shape().begin(), constant.shape().end());
  tensor.texts.assign(constant.texts().begin(), constant.texts().end());
  tensor.integers.assign(constant.integers().begin(),
                         constant.integers().end());
  tensor.floats.assign(constant.floats().begin(), constant.floats().end());
  ASSIGN_OR_RETURN(const uint64_t elements, TextElements(tensor.shape));
  const uint64_t lists =
      tensor.texts.size() + tensor.integers.size() + tensor.floats.size();
  if (tensor.size() == elements && lists == elements) return tensor;
  return engine::Refuse("a constant of shape [",
                        absl::StrJoin(tensor.shape, ","), "] has ", lists,
                        " elements");
}

}  // namespace gpupool::server
