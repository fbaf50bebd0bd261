// The element types. This header has names only, so code for GPUs can include
// it; engine/tensor/dtype.h has the functions.
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
