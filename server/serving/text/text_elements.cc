#include "server/serving/text/text_elements.h"

#include <cstring>
#include <utility>

#include "engine/base/refuse.h"
#include "engine/base/status_macros.h"
#include "server/serving/tensor/bytes_elements.h"
#include "server/serving/tensor/data_type.h"

namespace gpupool::server {
namespace {

template <typename Number, typename List>
void ReadNumbers(absl::Span<const std::byte> bytes, List& to) {
  for (size_t at = 0; at + sizeof(Number) <= bytes.size();
       at += sizeof(Number)) {
    Number number;
    std::memcpy(&number, bytes.data() + at, sizeof(number));
    to.push_back(number);
  }
}

template <typename Number, typename List>
std::string WriteNumbers(const List& from) {
  std::string raw(from.size() * sizeof(Number), '\0');
  char* to = raw.data();
  for (const auto element : from) {
    const auto number = static_cast<Number>(element);
    std::memcpy(to, &number, sizeof(number));
    to += sizeof(number);
  }
  return raw;
}

absl::StatusOr<std::string> WriteTextList(const TextTensor& tensor,
                                          TextMemory& memory) {
  std::string raw;
  for (const absl::string_view text : tensor.texts) {
    RETURN_IF_ERROR(memory.Take(kBytesElementHead + text.size()));
    AppendBytesElement(text, &raw);
  }
  return raw;
}

void ReadAll(v1::DataType type, absl::Span<const std::byte> bytes,
             TextTensor& to) {
  switch (type) {
    case v1::FLOAT32:
      return ReadNumbers<float>(bytes, to.floats);
    case v1::FLOAT64:
      return ReadNumbers<double>(bytes, to.floats);
    case v1::BOOL:
    case v1::UINT8:
      return ReadNumbers<uint8_t>(bytes, to.integers);
    case v1::INT8:
      return ReadNumbers<int8_t>(bytes, to.integers);
    case v1::INT16:
      return ReadNumbers<int16_t>(bytes, to.integers);
    case v1::UINT16:
      return ReadNumbers<uint16_t>(bytes, to.integers);
    case v1::INT32:
      return ReadNumbers<int32_t>(bytes, to.integers);
    case v1::UINT32:
      return ReadNumbers<uint32_t>(bytes, to.integers);
    default:
      return ReadNumbers<int64_t>(bytes, to.integers);
  }
}

}  // namespace

absl::StatusOr<TextTensor> ReadTextElements(v1::DataType type,
                                            std::vector<int64_t> shape,
                                            absl::Span<const std::byte> bytes,
                                            TextMemory& memory) {
  TextTensor tensor;
  tensor.type = type;
  tensor.shape = std::move(shape);
  RETURN_IF_ERROR(TextKindOf(type).status());
  ASSIGN_OR_RETURN(const uint64_t elements, TextElements(tensor.shape));
  RETURN_IF_ERROR(memory.TakeElements(elements));
  if (type == v1::STRING) {
    ASSIGN_OR_RETURN(
        tensor.texts,
        ReadBytesElements(
            {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
            elements));
    return tensor;
  }
  if (bytes.size() != elements * ElementBytes(type)) {
    return engine::Refuse("has ", bytes.size(), " bytes for ", elements,
                          " elements");
  }
  ReadAll(type, bytes, tensor);
  return tensor;
}

absl::StatusOr<std::string> WriteTextElements(const TextTensor& tensor,
                                              TextMemory& memory) {
  if (tensor.type == v1::STRING) return WriteTextList(tensor, memory);
  RETURN_IF_ERROR(memory.TakeElements(tensor.size()));
  switch (HeldType(tensor.type)) {
    case v1::FLOAT32:
      return WriteNumbers<float>(tensor.floats);
    case v1::FLOAT64:
      return WriteNumbers<double>(tensor.floats);
    case v1::BOOL:
    case v1::UINT8:
      return WriteNumbers<uint8_t>(tensor.integers);
    case v1::INT8:
      return WriteNumbers<int8_t>(tensor.integers);
    case v1::INT32:
      return WriteNumbers<int32_t>(tensor.integers);
    default:
      return WriteNumbers<int64_t>(tensor.integers);
  }
}

}  // namespace gpupool::server
