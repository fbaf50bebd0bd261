#include "engine/backends/cpu/kernel/half_rows.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <vector>

#include "engine/tensor/half.h"

namespace gpupool::engine {
namespace {

constexpr int64_t kBehind = 7;

// Every pattern of 16 bits is converted and back: NaN stays NaN, all others are
// unchanged.
TEST(HalfRowsTest, EveryNumberComesBack) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    std::vector<uint16_t> bits(1 << 16);
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = static_cast<uint16_t>(i);
    std::vector<float> floats(bits.size());
    FloatsFromHalf(dtype, bits.data(), floats.data(), 1 << 16);
    std::vector<uint16_t> back(bits.size());
    HalfFromFloats(dtype, floats.data(), back.data(), 1 << 16);
    for (size_t i = 0; i < bits.size(); ++i) {
      const float wanted = dtype == DType::kBFloat16
                               ? FloatFromBFloat16(bits[i])
                               : FloatFromFloat16(bits[i]);
      if (std::isnan(wanted)) {
        EXPECT_TRUE(std::isnan(floats[i]));
        continue;
      }
      ASSERT_EQ(std::bit_cast<uint32_t>(floats[i]),
                std::bit_cast<uint32_t>(wanted))
          << i;
      ASSERT_EQ(back[i], bits[i]);
    }
  }
}

// Ties, numbers that round to infinity or to 0, and NaN.
TEST(HalfRowsTest, RoundsAsTheScalarFunctions) {
  std::vector<float> floats = {0.0f,
                               -0.0f,
                               1.0f + 0x1p-8f,
                               1.0f + 0x1p-9f,
                               1.0f + 3 * 0x1p-9f,
                               65504.0f,
                               65519.9f,
                               65520.0f,
                               3.39e38f,
                               3.4e38f,
                               0x1p-24f,
                               0x1p-25f,
                               0x1.8p-25f,
                               -0x1p-14f,
                               HUGE_VALF,
                               -HUGE_VALF,
                               std::nanf("")};
  for (uint32_t i = 0; i < 5000; ++i) {
    floats.push_back(std::bit_cast<float>(i * 858993u));
  }
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    std::vector<uint16_t> bits(floats.size());
    HalfFromFloats(dtype, floats.data(), bits.data(),
                   static_cast<int64_t>(floats.size()));
    for (size_t i = 0; i < floats.size(); ++i) {
      const uint16_t wanted = dtype == DType::kBFloat16
                                  ? BFloat16FromFloat(floats[i])
                                  : Float16FromFloat(floats[i]);
      if (std::isnan(floats[i])) {
        EXPECT_TRUE(std::isnan(dtype == DType::kBFloat16
                                   ? FloatFromBFloat16(bits[i])
                                   : FloatFromFloat16(bits[i])));
        continue;
      }
      EXPECT_EQ(bits[i], wanted) << floats[i];
    }
  }
}

TEST(HalfRowsTest, TouchesNothingBehindTheRow) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    for (int64_t count = 0; count < 40; ++count) {
      std::vector<float> floats(static_cast<size_t>(count + kBehind), 1.5f);
      std::vector<uint16_t> bits(floats.size(), 0xabcd);
      HalfFromFloats(dtype, floats.data(), bits.data(), count);
      FloatsFromHalf(dtype, bits.data(), floats.data(), count);
      for (int64_t i = 0; i < kBehind; ++i) {
        const auto at = static_cast<size_t>(count + i);
        ASSERT_EQ(bits[at], 0xabcd);
        ASSERT_EQ(floats[at], 1.5f);
      }
    }
  }
}

}  // namespace
}  // namespace gpupool::engine
