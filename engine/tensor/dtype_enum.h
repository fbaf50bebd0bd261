// The element types by name, without anything else, for code that a GPU runs
// too; engine/tensor/dtype.h tells about them.
#pragma once

#include <cstdint>

namespace gpupool::engine {

enum class DType : uint8_t {
  kFloat32,
  kFloat64,
  kInt32,
  kInt64,
  kUint8,
  kBool,
  kInt8,
  kFloat16,
  kBFloat16,
};

}  // namespace gpupool::engine
