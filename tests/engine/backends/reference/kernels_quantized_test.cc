#include <gmock/gmock.h>

#include <cmath>

#include "tests/engine/backends/reference/one_op.h"

namespace gpupool::engine::reference {
namespace {

using ::testing::ElementsAre;

Operand Unsigned(const Shape& shape, Numbers numbers) {
  return {{DType::kUint8, shape}, std::move(numbers)};
}
Operand Signed(const Shape& shape, Numbers numbers) {
  return {{DType::kInt8, shape}, std::move(numbers)};
}

TEST(QuantizeKernelTest, RoundsHalvesToTheEvenNeighbourAndSaturates) {
  const Operand x = F({8}, {-1000, -1.25, -0.75, -0.25, 0.25, 0.75, 3, 1000});
  EXPECT_THAT(
      RunOp(Op::kQuantize, QuantizeAttributes{0.5, {DType::kUint8, 3, 0, 255}},
            {x})[0],
      ElementsAre(0, 1, 1, 3, 3, 5, 9, 255));
  EXPECT_THAT(
      RunOp(Op::kQuantize,
            QuantizeAttributes{0.5, {DType::kInt8, 0, -128, 127}}, {x})[0],
      ElementsAre(-128, -2, -2, 0, 0, 2, 6, 127));
}

TEST(QuantizeKernelTest, KeepsCodesInTheRange) {
  const Operand x = F({5}, {-2, 0, 2, 9, std::nan("")});
  EXPECT_THAT(RunOp(Op::kQuantize,
                    QuantizeAttributes{1, {DType::kUint8, 10, 10, 16}}, {x})[0],
              ElementsAre(10, 10, 12, 16, 10));
}

TEST(DequantizeKernelTest, SubtractsTheZeroPointBeforeItScales) {
  EXPECT_THAT(RunOp(Op::kDequantize, DequantizeAttributes{0.25, 128},
                    {Unsigned({3}, {0, 128, 255})})[0],
              ElementsAre(-32, 0, 31.75));
}

TEST(QuantizedAddKernelTest, AddsWhatTheCodesStandFor) {
  const QuantizedAddAttributes add{
      {0.5, 10}, {0.25, -4}, {1, {DType::kInt8, 1, -128, 127}}};
  // (20 - 10) / 2 + (0 + 4) / 4 = 6, and (200 - 10) / 2 + (127 + 4) / 4 is too
  // large.
  EXPECT_THAT(RunOp(Op::kQuantizedAdd, add,
                    {Unsigned({2}, {20, 200}), Signed({2}, {0, 127})})[0],
              ElementsAre(7, 127));
}

TEST(QuantizedConvKernelTest, PaddingIsTheZeroPoint) {
  QuantizedConv2dAttributes conv{.x_zero = 5};
  conv.conv.padding = {0, 1};
  conv.codes = {DType::kUint8, 100, 0, 255};
  // Sums of (x - 5) * w are -2 * 2, 1 * -2 + 0 * 0 ..., with zeros around.
  EXPECT_THAT(
      RunOp(Op::kQuantizedConv2d, conv,
            {Unsigned({1, 1, 1, 2}, {3, 9}), Signed({1, 1, 1, 3}, {1, 10, -1}),
             F({1}, {0.5}), F({1}, {4})})[0],
      ElementsAre(100 + (-2 * 10 - 4 + 4) / 2, 100 + (-2 + 4 * 10 + 4) / 2));
}

TEST(QuantizedConvKernelTest, EachFilterHasItsFactorAndShift) {
  const QuantizedConv2dAttributes conv;
  EXPECT_THAT(
      RunOp(Op::kQuantizedConv2d, conv,
            {Unsigned({1, 2, 1, 1}, {10, 20}),
             Signed({3, 2, 1, 1}, {1, 1, 2, -1, 127, 127}), F({3}, {0.5, 1, 1}),
             F({3}, {1, 7, 0})})[0],
      ElementsAre(16, 7, 255));  // 15.5 is rounded to 16, and 3810 saturates
}

}  // namespace
}  // namespace gpupool::engine::reference
