#include "engine/runtime/constants.h"

#include <cstring>

#include "engine/tensor/convert.h"

namespace gpupool::engine {

void WriteConstant(const Value& value, std::byte* data) {
  const auto bytes = static_cast<size_t>(value.bytes());
  WriteFromDoubles(value.dtype, value.constant, 1, data);
  if (value.constant.size() != 1) return;
  const size_t element = bytes / static_cast<size_t>(value.shape.elements());
  for (size_t at = element; at < bytes; at += element) {
    std::memcpy(data + at, data, element);
  }
}

}  // namespace gpupool::engine
