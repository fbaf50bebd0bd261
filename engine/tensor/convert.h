// Elements of any type from and to double. Pure functions; the caller sees to
// it that the elements exist.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/types/span.h"
#include "engine/tensor/dtype.h"

namespace gpupool::engine {

// to[i] is element i * stride at `from`. int64 is exact up to 2^53.
void ReadAsDoubles(DType dtype, const std::byte* from, int64_t stride,
                   absl::Span<double> to);

// Element i * stride at `to` becomes from[i]: rounded to nearest for floating
// types, towards zero and then modulo 2^bits for integers, and x != 0 for
// bool. Beyond int64 it is the nearest int64; NaN becomes 0.
void WriteFromDoubles(DType dtype, absl::Span<const double> from,
                      int64_t stride, std::byte* to);

// The number that WriteFromDoubles and ReadAsDoubles make of x.
double RoundToDType(DType dtype, double x);

// Element i of `to` becomes element i of `from`, with the rules above; `from`
// and `to` do not overlap.
void ConvertElements(DType from_dtype, const std::byte* from, DType to_dtype,
                     std::byte* to, int64_t count);

}  // namespace gpupool::engine
