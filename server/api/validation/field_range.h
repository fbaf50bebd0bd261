// Intervals for numbers of a request. Plain values and pure functions.
#pragma once

#include <limits>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace gpupool::server {

// An interval with its ends. `text` is its form in messages.
struct Range {
  double low;
  double high;
  bool low_belongs;
  bool high_belongs;
  const char* text;
};
inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr Range kShare{0, 1, true, false, "0 <= x < 1"};
inline constexpr Range kInside{0, 1, false, false, "0 < x < 1"};
inline constexpr Range kUpToOne{0, 1, true, true, "0 <= x <= 1"};
inline constexpr Range kPositive{0, kInfinity, false, false,
                                 "a number above 0"};
// For numbers that programs hold in float32.
inline constexpr Range kPositiveFloat{
    std::numeric_limits<float>::denorm_min(), std::numeric_limits<float>::max(),
    true, true, "a number above 0 that float32 holds, 1.4e-45 .. 3.4e38"};
inline constexpr Range kNotNegativeFloat{
    0, std::numeric_limits<float>::max(), true, true,
    "a number from 0 up that float32 holds, at most 3.4e38"};
inline constexpr Range kNotNegative{0, kInfinity, true, false,
                                    "a number from 0 up"};

// Returns OK, or InvalidArgument with field, value and interval. NaN is in no
// range.
absl::Status CheckRange(absl::string_view field, double value,
                        const Range& range);

}  // namespace gpupool::server
