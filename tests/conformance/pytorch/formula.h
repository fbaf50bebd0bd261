// The numbers of formula.py: element i of a stream is shift + scale * u(i),
// with u uniform in [-1, 1) from 24 bits of splitmix64(i), computed in double
// and rounded to float.
#pragma once

#include <cstdint>
#include <vector>

namespace gpupool::testing {

inline constexpr uint64_t kInputStream = uint64_t{1} << 40;
inline constexpr uint64_t kLabelStream = uint64_t{1} << 41;

inline uint64_t SplitMix64(uint64_t index) {
  uint64_t z = (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

inline float Uniform(uint64_t index, double scale = 1, double shift = 0) {
  const double u =
      static_cast<double>(SplitMix64(index) >> 40) / (1 << 23) - 1.0;
  return static_cast<float>(shift + scale * u);
}

inline std::vector<float> UniformNumbers(uint64_t first, int64_t count) {
  std::vector<float> numbers(static_cast<size_t>(count));
  for (float& number : numbers) number = Uniform(first++);
  return numbers;
}

inline std::vector<int64_t> Integers(uint64_t first, int64_t count,
                                     uint64_t limit) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  for (int64_t& number : numbers) {
    number = static_cast<int64_t>(SplitMix64(first++) % limit);
  }
  return numbers;
}

}  // namespace gpupool::testing
