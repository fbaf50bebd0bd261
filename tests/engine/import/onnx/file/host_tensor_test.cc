#include "engine/import/onnx/file/host_tensor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;

TEST(HostTensor, IntegersAreCutTowardsZero) {
  const HostTensor tensor{DType::kFloat64, Shape{4}, {-2.9, -0.5, 0, 3.9}};
  EXPECT_THAT(tensor.Integers(), ElementsAre(-2, 0, 0, 3));
}

TEST(HostTensor, IntegersSaturate) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const HostTensor tensor{
      DType::kFloat64, Shape{4}, {-kInfinity, -0x1p63, 0x1p63, kInfinity}};
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  EXPECT_THAT(tensor.Integers(), ElementsAre(kLeast, kLeast, kMost, kMost));
}

TEST(HostTensor, NotANumberIsZero) {
  const HostTensor tensor{
      DType::kFloat64, Shape{1}, {std::numeric_limits<double>::quiet_NaN()}};
  EXPECT_THAT(tensor.Integers(), ElementsAre(0));
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
