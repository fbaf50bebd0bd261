#include "client/files/float_bytes.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace gpupool::client {
namespace {

TEST(FloatBytesTest, EveryHalfComesBack) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float number = HalfToFloat(static_cast<uint16_t>(bits));
    if (std::isnan(number)) continue;
    EXPECT_EQ(FloatToHalf(number), bits) << number;
  }
}

TEST(FloatBytesTest, NumbersAreRoundedToTheNearestHalfToEven) {
  EXPECT_EQ(FloatToHalf(1 + 0x1p-11f), FloatToHalf(1));
  EXPECT_EQ(FloatToHalf(1 + 0x1.8p-10f), FloatToHalf(1 + 0x1p-9f));
  EXPECT_EQ(FloatToHalf(2 - 0x1p-12f), FloatToHalf(2));
  EXPECT_EQ(FloatToHalf(0x1p-25f), 0);
  EXPECT_EQ(FloatToHalf(0x1.8p-24f), 2);
  EXPECT_EQ(FloatToHalf(65519), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520), 0x7c00);
  EXPECT_EQ(FloatToHalf(-1e9f), 0xfc00);
  EXPECT_TRUE(std::isnan(
      HalfToFloat(FloatToHalf(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(FloatBytesTest, NumbersTravelInAllTypes) {
  const std::vector<float> numbers = {0, 1.5f, -0.25f, 96};
  for (const char* type : {"FP32", "FP16", "BF16"}) {
    std::string bytes;
    AppendFloats(type, numbers, bytes);
    EXPECT_EQ(bytes.size(), numbers.size() * FloatBytes(type));
    std::vector<float> read(numbers.size());
    ReadFloats(type, bytes, absl::MakeSpan(read));
    EXPECT_EQ(read, numbers) << type;
  }
  EXPECT_EQ(FloatBytes("INT64"), 0u);
}

TEST(FloatBytesTest, BfloatIsRoundedAndKeepsNan) {
  const std::vector<float> numbers = {1 + 0x1p-8f, 1 + 0x1.8p-7f,
                                      std::numeric_limits<float>::quiet_NaN(),
                                      std::numeric_limits<float>::infinity()};
  std::string bytes;
  AppendFloats("BF16", numbers, bytes);
  std::vector<float> read(4);
  ReadFloats("BF16", bytes, absl::MakeSpan(read));
  EXPECT_EQ(read[0], 1);
  EXPECT_EQ(read[1], 1 + 0x1p-6f);
  EXPECT_TRUE(std::isnan(read[2]));
  EXPECT_TRUE(std::isinf(read[3]));
}

}  // namespace
}  // namespace gpupool::client
