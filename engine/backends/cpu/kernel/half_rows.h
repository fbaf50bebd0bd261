// Rows of 16-bit floating numbers from and to float32, by SIMD. Rounds to
// nearest, ties to even; infinities and NaN stay, denormal float16 numbers too.
#pragma once

#include <cstdint>

#include "engine/tensor/dtype.h"

namespace gpupool::engine {

inline bool IsHalf(DType dtype) {
  return dtype == DType::kFloat16 || dtype == DType::kBFloat16;
}

// `dtype` is one of the two. Rows may lie anywhere and do not overlap; nothing
// behind them is touched.
void FloatsFromHalf(DType dtype, const uint16_t* from, float* to,
                    int64_t count);
void HalfFromFloats(DType dtype, const float* from, uint16_t* to,
                    int64_t count);

}  // namespace gpupool::engine
