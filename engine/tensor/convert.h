// Conversions of elements of any type from and to double. Pure functions; the
// caller guarantees that the elements exist.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "engine/tensor/dtype.h"

namespace gpupool::engine {

// Sets to[i] to element i * stride of `from`. int64 is exact up to 2^53.
void ReadAsDoubles(DType dtype, const std::byte* from, int64_t stride,
                   absl::Span<double> to);

// Sets element i * stride of `to` to from[i].
// - Floating types: rounds to nearest.
// - Integers: rounds towards zero, then takes the value modulo 2^bits. Values
//   beyond int64 become the nearest int64, NaN becomes 0.
// - bool: x != 0.
void WriteFromDoubles(DType dtype, absl::Span<const double> from,
                      int64_t stride, std::byte* to);

// Returns x after WriteFromDoubles and ReadAsDoubles.
double RoundToDType(DType dtype, double x);

// Sets element i of `to` to element i of `from`, with the rules above. `from`
// and `to` must not overlap.
void ConvertElements(DType from_dtype, const std::byte* from, DType to_dtype,
                     std::byte* to, int64_t count);

}  // namespace gpupool::engine
