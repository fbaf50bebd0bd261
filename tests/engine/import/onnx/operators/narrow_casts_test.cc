#include "engine/import/onnx/operators/narrow_casts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/engine/import/onnx/operators/lowering_case.h"

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> Cast(int to, std::vector<double> x,
                         const std::string& attributes = "") {
  const int64_t size = static_cast<int64_t>(x.size());
  const auto y = RunLowering(
      {.opset = 25,
       .graph = "(float[" + std::to_string(size) +
                "] x) => (float[N] z) { y = Cast<to = " + std::to_string(to) +
                attributes + ">(x) z = Cast<to = 1>(y) }",
       .inputs = {{"x", Floats({size}, std::move(x))}}});
  EXPECT_TRUE(y.ok()) << y.status();
  return y.ok() ? (*y)[0].numbers : std::vector<double>();
}

// Every number of the type stays, and the middle of two goes to the even one.
TEST(NarrowCastsTest, NumbersAreRoundedToTheNearestOfTheType) {
  for (const int data_type : {17, 18, 19, 20, 23}) {
    const NarrowType& type = *FindNarrowType(data_type);
    std::vector<double> x, expected;
    const unsigned sign = 1u << (type.bits - 1);
    for (unsigned code = 0; code + 1 < sign; ++code) {
      const double low = NarrowNumber(type, code);
      const double high = NarrowNumber(type, code + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const double middle = (low + high) / 2, part = (high - low) / 16;
      for (const double at : {low, middle - part, middle, middle + part}) {
        const bool up = at > middle || (at == middle && code % 2 == 1);
        x.push_back(-at);
        expected.push_back(up ? -high : -low);
      }
    }
    EXPECT_EQ(Cast(data_type, x), expected) << type.name;
  }
}

TEST(NarrowCastsTest, NumbersBeyondTheTypeSaturate) {
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> x = {1e6, -1e30, infinity, 460, NAN};
  const auto e4m3 = Cast(17, x);
  ASSERT_EQ(e4m3.size(), 5u);
  EXPECT_THAT(std::vector<double>(e4m3.begin(), e4m3.begin() + 4),
              ElementsAre(448, -448, 448, 448));
  EXPECT_TRUE(std::isnan(e4m3[4]));
  const auto e5m2 = Cast(19, x, ", saturate = 0");
  ASSERT_EQ(e5m2.size(), 5u);
  EXPECT_THAT(std::vector<double>(e5m2.begin(), e5m2.begin() + 4),
              ElementsAre(infinity, -infinity, infinity, 448));
  EXPECT_TRUE(std::isnan(e5m2[4]));
  for (const double y : Cast(18, {1e6, -1e30}, ", saturate = 0")) {
    EXPECT_TRUE(std::isnan(y));
  }
}

TEST(NarrowCastsTest, IntegersLoseTheirHigherBits) {
  const std::vector<double> x = {-9, -8.5, -1, 7, 8, 17};
  EXPECT_THAT(Cast(22, x), ElementsAre(7, -8, -1, 7, -8, 1));
  EXPECT_THAT(Cast(21, x), ElementsAre(7, 8, 15, 7, 8, 1));
  EXPECT_THAT(Cast(26, x), ElementsAre(-1, 0, -1, -1, 0, 1));
  EXPECT_THAT(Cast(25, x), ElementsAre(3, 0, 3, 3, 0, 1));
}

TEST(NarrowCastsTest, RoundingToPowersOfTwoIsRefused) {
  const auto y = ImportLowering(
      {.opset = 25,
       .graph = "(float[1] x) => (float[1] y) { y = Cast<to = 24>(x) }"});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(y.status().message()), HasSubstr("FLOAT8E8M0"));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
