// Converts rows of 16-bit floating numbers from and to float32 with SIMD.
// Rounds to nearest, ties to even. Keeps infinities, NaN and the denormal
// numbers of float16.
#pragma once

#include <cstdint>

#include "engine/tensor/dtype.h"

namespace gpupool::engine {

inline bool IsHalf(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

// Convert `count` numbers. `dtype` must be a 16-bit floating type. Rows need no
// alignment and must not overlap. Nothing behind the rows is touched.
void FloatsFromHalf(DType dtype, const uint16_t* from, float* to,
                    int64_t count);
void HalfFromFloats(DType dtype, const float* from, uint16_t* to,
                    int64_t count);

}  // namespace gpupool::engine
