#include "engine/data/synthetic/figure.h"

#include <algorithm>
#include <cmath>

namespace gpupool::engine {

bool IsInside(uint32_t figure, const Point& point) {
  const double x = std::abs(point.x), y = std::abs(point.y);
  if (x > 1 || y > 1) return false;
  switch (figure) {
    case 0:  // disc
      return x * x + y * y <= 1;
    case 1:  // square
      return true;
    case 2:  // triangle with its tip above
      return x <= (point.y + 1) / 2;
    default:  // cross
      return std::min(x, y) <= 0.3;
  }
}

}  // namespace gpupool::engine
