// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014): the same numbers on every
// machine.
//
// Thread-safety: none.
#pragma once

#include <cmath>
#include <cstdint>

namespace gpupool::scheduler {

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15;
    uint64_t z = state_;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  double Uniform() {  // in (0, 1)
    return (static_cast<double>(Next() >> 11) + 0.5) * 0x1p-53;
  }
  // Returns a number in [0, end). `end` must be small.
  uint64_t Below(uint64_t end) {
    return static_cast<uint64_t>(Uniform() * static_cast<double>(end));
  }
  double Exponential(double mean) { return -mean * std::log(Uniform()); }
  double Normal() {  // Box and Muller, 1958
    constexpr double kTwoPi = 6.283185307179586;
    return std::sqrt(-2 * std::log(Uniform())) * std::cos(kTwoPi * Uniform());
  }

 private:
  uint64_t state_;
};

}  // namespace gpupool::scheduler
