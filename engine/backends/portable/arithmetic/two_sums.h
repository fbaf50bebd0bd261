// Two sums over the same elements. (Host and device; plain C++.)
#pragma once

namespace gpupool::engine::portable {

struct TwoSums {
  double first = 0;
  double second = 0;
};

}  // namespace gpupool::engine::portable
