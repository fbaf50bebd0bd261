#include "engine/tensor/convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/tensor/half.h"

namespace gpupool::engine {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

TEST(HalfTest, EveryFloat16SurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float x = FloatFromFloat16(static_cast<uint16_t>(bits));
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(FloatFromFloat16(Float16FromFloat(x))));
      continue;
    }
    EXPECT_EQ(Float16FromFloat(x), bits) << x;
  }
}

TEST(HalfTest, EveryBFloat16SurvivesTheWayThroughFloat) {
  for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
    const float x = FloatFromBFloat16(static_cast<uint16_t>(bits));
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(FloatFromBFloat16(BFloat16FromFloat(x))));
      continue;
    }
    EXPECT_EQ(BFloat16FromFloat(x), bits) << x;
  }
}

TEST(HalfTest, RoundsToNearestAndTiesToEven) {
  EXPECT_EQ(RoundToDType(DType::kFloat16, 1 + 0x1p-11), 1);
  EXPECT_EQ(RoundToDType(DType::kFloat16, 1 + 3 * 0x1p-11), 1 + 0x1p-9);
  EXPECT_EQ(RoundToDType(DType::kFloat16, 0x1p-25), 0);
  EXPECT_EQ(RoundToDType(DType::kFloat16, 3 * 0x1p-25), 0x1p-23);
  EXPECT_EQ(RoundToDType(DType::kFloat16, 65519), 65504);
  EXPECT_EQ(RoundToDType(DType::kFloat16, 65520), kInfinity);
  EXPECT_EQ(RoundToDType(DType::kBFloat16, 1 + 0x1p-8), 1);
  EXPECT_EQ(RoundToDType(DType::kBFloat16, 1 + 3 * 0x1p-8), 1 + 0x1p-6);
  EXPECT_EQ(RoundToDType(DType::kBFloat16, -1e300), -kInfinity);
}

TEST(ConvertTest, IntegersAreCutTowardsZeroAndWrap) {
  EXPECT_EQ(RoundToDType(DType::kInt32, -2.9), -2);
  EXPECT_EQ(RoundToDType(DType::kUint8, 300), 44);
  EXPECT_EQ(RoundToDType(DType::kUint8, -1), 255);
  EXPECT_EQ(RoundToDType(DType::kInt8, 200), -56);
  EXPECT_EQ(RoundToDType(DType::kInt64, 1e300), 0x1p63);
  EXPECT_EQ(RoundToDType(DType::kInt64, -1e300), -0x1p63);
  EXPECT_EQ(RoundToDType(DType::kInt32, std::nan("")), 0);
}

TEST(ConvertTest, TruthIsAnythingButZero) {
  EXPECT_EQ(RoundToDType(DType::kBool, 0.25), 1);
  EXPECT_EQ(RoundToDType(DType::kBool, std::nan("")), 1);
  EXPECT_EQ(RoundToDType(DType::kBool, -0.0), 0);
}

TEST(ConvertTest, StridesPickAndPlaceElements) {
  const std::vector<int32_t> from = {1, 2, 3, 4, 5};
  std::vector<double> numbers(3);
  ReadAsDoubles(DType::kInt32, reinterpret_cast<const std::byte*>(from.data()),
                2, absl::MakeSpan(numbers));
  EXPECT_EQ(numbers, (std::vector<double>{1, 3, 5}));
  std::vector<float> to(5, -1);
  WriteFromDoubles(DType::kFloat32, numbers, 2,
                   reinterpret_cast<std::byte*>(to.data()));
  EXPECT_EQ(to, (std::vector<float>{1, -1, 3, -1, 5}));
}

TEST(ConvertTest, ConvertsBetweenTypesWithoutLosingWholeNumbers) {
  const int64_t large = (int64_t{1} << 62) + 1;
  const std::vector<int64_t> from = {large, -1};
  std::vector<int32_t> to(2);
  ConvertElements(
      {DType::kInt64, reinterpret_cast<const std::byte*>(from.data())},
      {DType::kInt32, reinterpret_cast<std::byte*>(to.data())}, 2);
  EXPECT_EQ(to, (std::vector<int32_t>{1, -1}));
}

}  // namespace
}  // namespace gpupool::engine
