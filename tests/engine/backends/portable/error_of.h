// The distance of numbers from the expected ones.
#pragma once

#include <algorithm>
#include <cmath>

#include "engine/backends/reference/interpreter.h"

namespace gpupool::engine::testing {

// Returns the largest difference of an element, relative to 1 + the largest
// finite expected number. The difference is 0 where both are NaN or the same
// infinity.
inline double ErrorOf(const reference::Numbers& got,
                      const reference::Numbers& wanted) {
  if (got.size() != wanted.size()) return HUGE_VAL;
  double largest = 0, difference = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    if (std::isnan(got[i]) && std::isnan(wanted[i])) continue;
    if (got[i] == wanted[i]) continue;
    if (std::isfinite(wanted[i])) {
      largest = std::max(largest, std::abs(wanted[i]));
    }
    const double here = std::abs(got[i] - wanted[i]);
    if (std::isnan(here)) return HUGE_VAL;
    difference = std::max(difference, here);
  }
  return difference / (1 + largest);
}

}  // namespace gpupool::engine::testing
