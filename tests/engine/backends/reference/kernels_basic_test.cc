#include <gmock/gmock.h>

#include <cmath>

#include "engine/backends/reference/kernels.h"
#include "engine/base/philox.h"
#include "tests/engine/backends/reference/one_op.h"

namespace gpupool::engine::reference {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::Pointwise;

TEST(MatMulKernelTest, AllTranspositionsGiveTheSameProduct) {
  const Operand a = F({2, 3}, {1, 2, 3, 4, 5, 6});
  const Operand at = F({3, 2}, {1, 4, 2, 5, 3, 6});
  const Operand b = F({3, 2}, {7, 8, 9, 10, 11, 12});
  const Operand bt = F({2, 3}, {7, 9, 11, 8, 10, 12});
  for (int form = 0; form < 4; ++form) {
    const bool ta = form & 1;
    const bool tb = form & 2;
    EXPECT_THAT(RunOp(Op::kMatMul, MatMulAttributes{ta, tb, {}},
                      {ta ? at : a, tb ? bt : b})[0],
                ElementsAre(58, 64, 139, 154));
  }
}

TEST(MatMulKernelTest, EpilogueAddsBiasThenResidualThenActivates) {
  const MatMulAttributes attributes{
      .epilogue = {true, true, Activation::kRelu}};
  EXPECT_THAT(RunOp(Op::kMatMul, attributes,
                    {F({1, 1}, {2}), F({1, 2}, {3, 3}), F({2}, {1, -10}),
                     F({1, 2}, {0.5, 1})})[0],
              ElementsAre(7.5, 0));
}

TEST(ActivationKernelTest, KnownValues) {
  EXPECT_EQ(Activate(Activation::kRelu, -1), 0);
  EXPECT_TRUE(std::isnan(Activate(Activation::kRelu, NAN)));
  EXPECT_NEAR(Activate(Activation::kGelu, 1), 0.8413447460685429, 1e-12);
  EXPECT_NEAR(Activate(Activation::kGeluTanh, 1), 0.8411919906082768, 1e-12);
  EXPECT_NEAR(Activate(Activation::kSigmoid, 1), 0.7310585786300049, 1e-12);
  EXPECT_NEAR(Activate(Activation::kTanh, 1), 0.7615941559557649, 1e-12);
}

TEST(ActivationKernelTest, ReluPassesNoGradientAtZero) {
  EXPECT_THAT(
      RunOp(Op::kReluGrad, {}, {F({3}, {5, 5, 5}), F({3}, {0, 1, 0})})[0],
      ElementsAre(0, 5, 0));
}

TEST(ScaleShiftKernelTest, RepeatsOverTheBatch) {
  EXPECT_THAT(
      RunOp(Op::kScaleShift, {},
            {F({2, 2}, {1, 2, 3, 4}), F({2}, {10, 100}), F({2}, {1, 2})})[0],
      ElementsAre(11, 202, 31, 402));
}

TEST(ColumnSumKernelTest, AddsRows) {
  EXPECT_THAT(RunOp(Op::kColumnSum, {}, {F({2, 2}, {1, 2, 3, 4})})[0],
              ElementsAre(4, 6));
}

TEST(DropoutKernelTest, MaskIsThePhiloxFormulaAndScales) {
  const DropoutAttributes dropout{.probability = 0.25, .stream = 77};
  const Numbers ones(10, 1.0);
  const Numbers y =
      RunOp(Op::kDropout, dropout, {F({10}, ones), I({}, {5}), I({}, {3})})[0];
  for (uint64_t i = 0; i < 10; ++i) {
    const auto words = PhiloxBlock(5, 77, uint64_t{3} << 32 | i / 4);
    const bool keep = PhiloxUniformFloat(words[i % 4]) >= 0.25f;
    EXPECT_DOUBLE_EQ(y[i], keep ? 1 / 0.75 : 0);
  }
}

TEST(DropoutKernelTest, StepAndSeedChangeTheMaskAndRatesHold) {
  const DropoutAttributes dropout{.probability = 0.3, .stream = 1};
  const Operand x = F({10000}, Numbers(10000, 1.0));
  const auto run = [&](double seed, double step) {
    return RunOp(Op::kDropout, dropout, {x, I({}, {seed}), I({}, {step})})[0];
  };
  EXPECT_NE(run(1, 1), run(1, 2));
  EXPECT_NE(run(1, 1), run(2, 1));
  EXPECT_EQ(run(1, 1), run(1, 1));
  double sum = 0;
  for (double y : run(1, 1)) sum += y;
  EXPECT_NEAR(sum / 10000, 1, 0.03);
}

TEST(LayoutConvertKernelTest, LogicalNumbersStay) {
  const Numbers x{1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_THAT(
      RunOp(Op::kLayoutConvert, LayoutAttributes{}, {F({1, 2, 2, 2}, x)})[0],
      Pointwise(DoubleNear(0), x));
}

}  // namespace
}  // namespace gpupool::engine::reference
