#include "engine/runtime/constants.h"

#include <cstdint>

#include "engine/base/check.h"

namespace gpupool::engine {
namespace {

// Writes the numbers as T; a single number fills the value.
template <typename T>
void WriteAs(const Value& value, std::byte* data) {
  T* out = reinterpret_cast<T*>(data);
  const bool fill = value.constant.size() == 1;
  for (int64_t i = 0; i < value.shape.elements(); ++i) {
    out[i] = static_cast<T>(value.constant[fill ? 0 : static_cast<size_t>(i)]);
  }
}

}  // namespace

void WriteConstant(const Value& value, std::byte* data) {
  switch (value.dtype) {
    case DType::kFloat32:
      return WriteAs<float>(value, data);
    case DType::kFloat64:
      return WriteAs<double>(value, data);
    case DType::kInt32:
      return WriteAs<int32_t>(value, data);
    case DType::kInt64:
      return WriteAs<int64_t>(value, data);
    case DType::kUint8:
    case DType::kBool:
      return WriteAs<uint8_t>(value, data);
    case DType::kInt8:
      return WriteAs<int8_t>(value, data);
    case DType::kFloat16:
    case DType::kBFloat16:
      break;
  }
  GPUPOOL_CHECK(false && "no constants of half precision");
}

}  // namespace gpupool::engine
