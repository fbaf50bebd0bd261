// Random choices of the graph fuzzer. The same seed gives the same choices on
// every machine. A value: belongs to one thread.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/base/philox.h"

namespace gpupool::engine::fuzz {

class Dice {
 public:
  explicit Dice(uint64_t seed, uint64_t stream = 0) : random_(seed, stream) {}

  // Returns a number in [0, bound); `bound` must be at least 1.
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(
        random_.NextBelow(static_cast<uint64_t>(bound)));
  }
  // Returns a number in [low, high].
  int64_t Between(int64_t low, int64_t high) {
    return low + Below(high - low + 1);
  }
  // Returns true in `percent` of 100 calls.
  bool Chance(int percent) { return Below(100) < percent; }
  // Returns a number in [low, high).
  double Uniform(double low, double high) {
    return low + (high - low) * random_.NextDouble();
  }
  template <typename T>
  const T& OneOf(const std::vector<T>& all) {
    return all[static_cast<size_t>(Below(static_cast<int64_t>(all.size())))];
  }

 private:
  Philox random_;
};

}  // namespace gpupool::engine::fuzz
