// The two 16-bit floating types as bit patterns: float16 is IEEE 754 binary16,
// and bfloat16 is the upper half of a float32. Pure functions. Conversions to
// 16 bits round to nearest, ties to even, and keep infinities and NaN.
#pragma once

#include <cstdint>

namespace gpupool::engine {

float FloatFromFloat16(uint16_t bits);
uint16_t Float16FromFloat(float x);
float FloatFromBFloat16(uint16_t bits);
uint16_t BFloat16FromFloat(float x);

}  // namespace gpupool::engine
