// Numbers as the floating datatypes of the open inference protocol: FP32, FP16
// (IEEE 754 binary16) and BF16. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace gpupool::client {

// Returns the bytes of a number, or 0 if the datatype is none of the three.
size_t FloatBytes(absl::string_view datatype);

// Returns the number with these bits.
float HalfToFloat(uint16_t bits);
// Returns the bits of the nearest number, half to even. Numbers beyond 65504
// become infinite.
uint16_t FloatToHalf(float number);

// Appends the numbers to `bytes`, rounded to the datatype, which must be one of
// the three.
void AppendFloats(absl::string_view datatype, absl::Span<const float> numbers,
                  std::string& bytes);
// Sets `numbers` to those in `bytes`, which must have exactly as many.
void ReadFloats(absl::string_view datatype, absl::string_view bytes,
                absl::Span<float> numbers);

}  // namespace gpupool::client
