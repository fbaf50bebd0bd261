#include "engine/runtime/constants.h"

#include <gtest/gtest.h>

#include <cstring>

namespace gpupool::engine {
namespace {

template <typename T>
std::vector<T> Written(DType dtype, std::vector<double> numbers) {
  Value value;
  value.dtype = dtype;
  value.shape = Shape{3};
  value.constant = std::move(numbers);
  std::vector<T> result(3);
  WriteConstant(value, reinterpret_cast<std::byte*>(result.data()));
  return result;
}

TEST(ConstantsTest, ConvertsEachNumberToTheType) {
  EXPECT_EQ(Written<float>(DType::kFloat32, {1, 2.5, -3}),
            (std::vector<float>{1, 2.5, -3}));
  EXPECT_EQ(Written<double>(DType::kFloat64, {1, 2.5, -3}),
            (std::vector<double>{1, 2.5, -3}));
  EXPECT_EQ(Written<int64_t>(DType::kInt64, {1, 2, -3}),
            (std::vector<int64_t>{1, 2, -3}));
  EXPECT_EQ(Written<int32_t>(DType::kInt32, {1, 2, -3}),
            (std::vector<int32_t>{1, 2, -3}));
  EXPECT_EQ(Written<int8_t>(DType::kInt8, {1, 2, -3}),
            (std::vector<int8_t>{1, 2, -3}));
  EXPECT_EQ(Written<uint8_t>(DType::kUint8, {1, 2, 255}),
            (std::vector<uint8_t>{1, 2, 255}));
}

TEST(ConstantsTest, RoundsToTheTypesOfHalfPrecision) {
  EXPECT_EQ(Written<uint16_t>(DType::kFloat16, {1, -2, 1e9}),
            (std::vector<uint16_t>{0x3c00, 0xc000, 0x7c00}));
  EXPECT_EQ(Written<uint16_t>(DType::kBFloat16, {1, -2, 0.3}),
            (std::vector<uint16_t>{0x3f80, 0xc000, 0x3e9a}));
  EXPECT_EQ(Written<uint16_t>(DType::kFloat16, {0.5}),
            (std::vector<uint16_t>{0x3800, 0x3800, 0x3800}));
}

TEST(ConstantsTest, OneNumberFillsTheValue) {
  EXPECT_EQ(Written<float>(DType::kFloat32, {7}),
            (std::vector<float>{7, 7, 7}));
}

}  // namespace
}  // namespace gpupool::engine
