// Functors of dropout and random numbers. Part of the elementwise family. (Host
// and device; plain C++.)
#pragma once

#include <cmath>
#include <cstdint>

#include "engine/backends/portable/arithmetic/host_device.h"
#include "engine/backends/portable/arithmetic/numbers.h"
#include "engine/backends/portable/elementwise/elementwise_program.h"
#include "engine/base/philox_block.h"

namespace gpupool::engine::portable {

// Computes the four elements of Philox block i (DropoutAttributes). T is a hot
// type or double.
template <typename T>
struct DropoutFunctor {
  const T* x = nullptr;
  T* y = nullptr;
  const int64_t* seed = nullptr;
  const int64_t* step = nullptr;
  uint64_t stream = 0;
  int64_t count = 0;
  uint32_t threshold = 0;  // u >= p for u = k / 2^24 is k >= this
  double scale = 1;

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const int64_t begin = i * 4;
    const PhiloxWords words = PhiloxWordsOf(
        static_cast<uint64_t>(*seed), stream,
        static_cast<uint64_t>(*step) << 32 | static_cast<uint64_t>(i));
    const int64_t rest = count - begin;
    const int here = rest < 4 ? static_cast<int>(rest) : 4;
    if constexpr (sizeof(T) == sizeof(double)) {
      for (int e = 0; e < here; ++e) {
        const bool keep = (words.word[e] >> 8) >= threshold;
        y[begin + e] = keep ? x[begin + e] * scale : 0.0;
      }
    } else {
      const auto factor = static_cast<float>(scale);
      float numbers[4] = {};
      ReadPack<T, 4>(x + begin, here, numbers);
      for (int e = 0; e < 4; ++e) {
        const bool keep = (words.word[e] >> 8) >= threshold;
        numbers[e] = keep ? numbers[e] * factor : 0.0f;
      }
      WritePack<T, 4>(numbers, here, y + begin);
    }
  }
};

// Computes the four numbers of Philox block i (RandomAttributes).
struct RandomFunctor {
  float* y = nullptr;
  const int64_t* seed = nullptr;
  const int64_t* step = nullptr;
  uint64_t stream = 0;
  int64_t count = 0;
  bool normal = false;
  double first = 0, second = 1;

  GPUPOOL_HOST_DEVICE double NumberOf(const PhiloxWords& words, int e) const {
    if (!normal) {
      return first + (second - first) * PhiloxUniformFloat(words.word[e]);
    }
    // More than 0, so that the logarithm is finite.
    const double u = 1.0 - PhiloxUniformFloat(words.word[e & ~1]);
    const double angle =
        6.28318530717958647693 * PhiloxUniformFloat(words.word[e | 1]);
    const double wave = e % 2 == 0 ? std::cos(angle) : std::sin(angle);
    return first + second * std::sqrt(-2 * std::log(u)) * wave;
  }

  GPUPOOL_HOST_DEVICE void operator()(int64_t i) const {
    const PhiloxWords words = PhiloxWordsOf(
        static_cast<uint64_t>(*seed), stream,
        static_cast<uint64_t>(*step) << 32 | static_cast<uint64_t>(i));
    for (int e = 0; e < 4 && i * 4 + e < count; ++e) {
      y[i * 4 + e] = static_cast<float>(NumberOf(words, e));
    }
  }
};

}  // namespace gpupool::engine::portable
