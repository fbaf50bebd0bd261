#include "engine/backends/portable/arithmetic/numbers.h"

#include <gtest/gtest.h>

#include <cmath>

#include "engine/tensor/convert.h"
#include "engine/tensor/half.h"

namespace gpupool::engine::portable {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kFloat64, DType::kInt32,
                            DType::kInt64,   DType::kUint8,   DType::kBool,
                            DType::kInt8,    DType::kFloat16, DType::kBFloat16};

TEST(NumbersTest, EverySixteenBitPatternIsTheEnginesNumber) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto pattern = static_cast<uint16_t>(bits);
    const float half = FloatFromFloat16(pattern);
    const float brain = FloatFromBFloat16(pattern);
    EXPECT_EQ(BitsOfFloat(ToFloat(Float16{pattern})), BitsOfFloat(half));
    EXPECT_EQ(BitsOfFloat(ToFloat(BFloat16{pattern})), BitsOfFloat(brain));
  }
}

TEST(NumbersTest, RoundsToSixteenBitsAsTheEngineDoes) {
  // Every exponent, with mantissas around the ties.
  for (uint32_t high = 0; high < 0x10000; ++high) {
    for (const uint32_t low : {0x0u, 0x7fffu, 0x8000u, 0x8001u, 0x1000u}) {
      const float x = FloatOfBits(high << 16 | low);
      ASSERT_EQ(FromFloat<BFloat16>(x).bits, BFloat16FromFloat(x)) << x;
      ASSERT_EQ(FromFloat<Float16>(x).bits, Float16FromFloat(x)) << x;
    }
  }
}

TEST(NumbersTest, ConvertsBetweenAllTypesAsTheEngineDoes) {
  const double numbers[] = {0,   1,   -1,   2.75,    -2.75,
                            200, 300, -129, 65536.5, 1e6};
  for (const DType from : kTypes) {
    for (const DType to : kTypes) {
      for (const double number : numbers) {
        std::byte stored[8], wanted[8], got[8];
        WriteFromDoubles(from, {number}, 1, stored);
        ConvertElements(from, stored, to, wanted, 1);
        StoreNumber(to, got, 0, Convert(from, to, LoadNumber(from, stored, 0)));
        EXPECT_EQ(std::memcmp(got, wanted, SizeOf(to)), 0)
            << DTypeName(from) << " " << number << " to " << DTypeName(to);
      }
    }
  }
}

TEST(NumbersTest, WholeNumbersStayExactBeyondDouble) {
  const int64_t large = (int64_t{1} << 62) + 1;
  int64_t copy = 0;
  StoreNumber(DType::kInt64, &copy, 0, LoadNumber(DType::kInt64, &large, 0));
  EXPECT_EQ(copy, large);
}

TEST(NumbersTest, ConversionsOutsideTakeTheNearestAndNanIsZero) {
  EXPECT_EQ(ToWhole(1e300), INT64_MAX);
  EXPECT_EQ(ToWhole(-HUGE_VAL), INT64_MIN);
  EXPECT_EQ(ToWhole(NAN), 0);
  EXPECT_EQ(ToWhole(-2.9), -2);
}

}  // namespace
}  // namespace gpupool::engine::portable
