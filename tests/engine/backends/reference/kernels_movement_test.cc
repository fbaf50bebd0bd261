#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "engine/base/philox.h"
#include "tests/engine/backends/reference/one_op.h"

namespace gpupool::engine::reference {
namespace {

using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::IsEmpty;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// 0, 1, 2, ...
Numbers Count(size_t count) {
  Numbers numbers;
  for (size_t i = 0; i < count; ++i) {
    numbers.push_back(static_cast<double>(i));
  }
  return numbers;
}

Operand Nothing(const std::vector<int64_t>& dims) {
  return {{DType::kFloat32, *Shape::CreateMaybeEmpty(dims)}, {}};
}

TEST(TransposeKernelTest, OutputAxisIIsInputAxisPermutationI) {
  const Numbers y = RunOp(Op::kTranspose, TransposeAttributes{{2, 0, 1}},
                          {F({2, 3, 4}, Count(24))})[0];
  Numbers expected;
  for (int k = 0; k < 4; ++k) {
    for (int i = 0; i < 2; ++i) {
      for (int j = 0; j < 3; ++j) expected.push_back(12 * i + 4 * j + k);
    }
  }
  EXPECT_THAT(y, ElementsAreArray(expected));
}

TEST(TransposeKernelTest, EmptyShapesAndScalarsPass) {
  EXPECT_THAT(
      RunOp(Op::kTranspose, TransposeAttributes{{1, 0}}, {Nothing({0, 3})})[0],
      IsEmpty());
  EXPECT_THAT(RunOp(Op::kTranspose, TransposeAttributes{}, {F({}, {7})})[0],
              ElementsAre(7));
}

TEST(SliceKernelTest, WalksForwardsAndBackwards) {
  EXPECT_THAT(RunOp(Op::kSlice, SliceAttributes{{1, 3}, {1, -2}, {2, 2}},
                    {F({3, 4}, Count(12))})[0],
              ElementsAre(7, 5, 11, 9));
  EXPECT_THAT(RunOp(Op::kSlice, SliceAttributes{{0, 0}, {1, 1}, {3, 0}},
                    {F({3, 4}, Count(12))})[0],
              IsEmpty());
}

TEST(SliceKernelTest, TheGradientGoesBackAndLeavesZeros) {
  const SliceGradAttributes grad{{{4}, {-2}, {2}}, Shape{5}};
  EXPECT_THAT(RunOp(Op::kSliceGrad, grad, {F({2}, {1, 2})})[0],
              ElementsAre(0, 0, 2, 0, 1));
}

TEST(PadKernelTest, ConstantReflectAndEdge) {
  PadAttributes pad{.before = {2}, .after = {1}, .value = 9};
  const Operand x = F({3}, {1, 2, 3});
  EXPECT_THAT(RunOp(Op::kPad, pad, {x})[0], ElementsAre(9, 9, 1, 2, 3, 9));
  pad.mode = PadMode::kReflect;
  EXPECT_THAT(RunOp(Op::kPad, pad, {x})[0], ElementsAre(3, 2, 1, 2, 3, 2));
  pad.mode = PadMode::kEdge;
  EXPECT_THAT(RunOp(Op::kPad, pad, {x})[0], ElementsAre(1, 1, 1, 2, 3, 3));
}

TEST(PadKernelTest, PadsEveryAxis) {
  const PadAttributes pad{
      .before = {0, 1}, .after = {1, 0}, .mode = PadMode::kReflect};
  EXPECT_THAT(RunOp(Op::kPad, pad, {F({2, 2}, {1, 2, 3, 4})})[0],
              ElementsAre(2, 1, 2, 4, 3, 4, 2, 1, 2));
}

TEST(PadKernelTest, AnEmptyValueBecomesPadding) {
  const PadAttributes pad{.before = {2}, .after = {0}, .value = 5};
  EXPECT_THAT(RunOp(Op::kPad, pad, {Nothing({0})})[0], ElementsAre(5, 5));
}

TEST(PadKernelTest, TheGradientAddsWhatWasRepeated) {
  PadAttributes pad{.before = {2}, .after = {1}, .value = 9};
  const Operand dy = F({6}, {1, 10, 100, 1000, 10000, 100000});
  EXPECT_THAT(RunOp(Op::kPadGrad, pad, {dy})[0], ElementsAre(100, 1000, 10000));
  pad.mode = PadMode::kReflect;
  EXPECT_THAT(RunOp(Op::kPadGrad, pad, {dy})[0],
              ElementsAre(100, 101010, 10001));
  pad.mode = PadMode::kEdge;
  EXPECT_THAT(RunOp(Op::kPadGrad, pad, {dy})[0],
              ElementsAre(111, 1000, 110000));
}

TEST(ConcatKernelTest, InputsStandBehindEachOtherAlongTheAxis) {
  EXPECT_THAT(
      RunOp(Op::kConcat, AxisAttributes{1},
            {F({2, 1}, {1, 2}), Nothing({2, 0}), F({2, 2}, {3, 4, 5, 6})})[0],
      ElementsAre(1, 3, 4, 2, 5, 6));
  EXPECT_THAT(RunOp(Op::kConcat, AxisAttributes{0},
                    {F({1, 2}, {1, 2}), F({2, 2}, {3, 4, 5, 6})})[0],
              ElementsAre(1, 2, 3, 4, 5, 6));
}

TEST(TopKKernelTest, TheFirstOfEqualsComesFirst) {
  const Operand x = F({6}, {2, 5, 2, 5, 1, 5});
  const auto largest = RunOp(Op::kTopK, TopKAttributes{.k = 4}, {x});
  EXPECT_THAT(largest[0], ElementsAre(5, 5, 5, 2));
  EXPECT_THAT(largest[1], ElementsAre(1, 3, 5, 0));
  const auto smallest =
      RunOp(Op::kTopK, TopKAttributes{.k = 3, .largest = false}, {x});
  EXPECT_THAT(smallest[0], ElementsAre(1, 2, 2));
  EXPECT_THAT(smallest[1], ElementsAre(4, 0, 2));
}

TEST(TopKKernelTest, WorksAlongAnyAxis) {
  const auto top =
      RunOp(Op::kTopK, TopKAttributes{.axis = 1, .k = 1},
            {F({2, 3, 2}, {1, 8, 3, 2, 2, 9, 0, 7, -1, 5, -2, 6})});
  EXPECT_THAT(top[0], ElementsAre(3, 9, 0, 7));
  EXPECT_THAT(top[1], ElementsAre(1, 2, 0, 0));
}

TEST(TopKKernelTest, NaNCountsAsLargest) {
  const Operand x = F({5}, {1, kNaN, INFINITY, kNaN, -INFINITY});
  EXPECT_THAT(RunOp(Op::kTopK, TopKAttributes{.k = 5}, {x})[1],
              ElementsAre(1, 3, 2, 0, 4));
  EXPECT_THAT(
      RunOp(Op::kTopK, TopKAttributes{.k = 5, .largest = false}, {x})[1],
      ElementsAre(4, 0, 2, 1, 3));
}

TEST(TopKKernelTest, NoneOfNothingIsNothing) {
  EXPECT_THAT(RunOp(Op::kTopK, TopKAttributes{.k = 0}, {Nothing({0})})[0],
              IsEmpty());
}

TEST(RandomKernelTest, UniformNumbersAreThePhiloxWordsInOrder) {
  const RandomAttributes random{
      .first = -2, .second = 6, .stream = 5, .shape = {2, 3}};
  const Numbers y = RunOp(Op::kRandom, random, {I({}, {11}), I({}, {3})})[0];
  for (size_t i = 0; i < y.size(); ++i) {
    const uint64_t block = (uint64_t{3} << 32) + i / 4;
    EXPECT_EQ(y[i],
              -2 + 8.0 * PhiloxUniformFloat(PhiloxBlock(11, 5, block)[i % 4]));
  }
}

TEST(RandomKernelTest, NormalNumbersHaveMeanDeviationAndNormalTails) {
  const RandomAttributes random{.distribution = RandomDistribution::kNormal,
                                .first = 3,
                                .second = 2,
                                .stream = 1,
                                .shape = {20000}};
  const Numbers y = RunOp(Op::kRandom, random, {I({}, {1}), I({}, {1})})[0];
  double sum = 0;
  double squares = 0;
  double neighbours = 0;
  int within = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    const double z = (y[i] - 3) / 2;
    sum += z;
    squares += z * z;
    within += std::abs(z) < 1;
    if (i > 0) neighbours += z * (y[i - 1] - 3) / 2;
  }
  const auto count = static_cast<double>(y.size());
  // Five standard errors.
  EXPECT_NEAR(sum / count, 0, 0.036);
  EXPECT_NEAR(squares / count, 1, 0.05);
  EXPECT_NEAR(neighbours / count, 0, 0.036);
  EXPECT_NEAR(within / count, 0.6827, 0.017);
}

TEST(RandomKernelTest, StepsAndStreamsAndSeedsDiffer) {
  const RandomAttributes random{.shape = {4}};
  RandomAttributes other = random;
  other.stream = 1;
  const Numbers y = RunOp(Op::kRandom, random, {I({}, {1}), I({}, {1})})[0];
  EXPECT_NE(y, RunOp(Op::kRandom, random, {I({}, {1}), I({}, {2})})[0]);
  EXPECT_NE(y, RunOp(Op::kRandom, random, {I({}, {2}), I({}, {1})})[0]);
  EXPECT_NE(y, RunOp(Op::kRandom, other, {I({}, {1}), I({}, {1})})[0]);
  EXPECT_EQ(y, RunOp(Op::kRandom, random, {I({}, {1}), I({}, {1})})[0]);
}

TEST(ResizeKernelTest, AppliesTheTablesAxisByAxis) {
  const ResizeAxis rows{.axis = 0,
                        .size = 3,
                        .taps = 2,
                        .indices = {0, 0, 0, 1, 1, 1},
                        .weights = {1, 0, 0.5, 0.5, 0.25, 0.75}};
  const ResizeAxis columns{
      .axis = 1, .size = 1, .taps = 1, .indices = {1}, .weights = {2}};
  const Operand x = F({2, 2}, {1, 2, 3, 6});
  EXPECT_THAT(RunOp(Op::kResize, ResizeAttributes{{rows}}, {x})[0],
              ElementsAre(1, 2, 2, 4, 3, 6));
  EXPECT_THAT(RunOp(Op::kResize, ResizeAttributes{{rows, columns}}, {x})[0],
              ElementsAre(4, 8, 12));
  EXPECT_THAT(RunOp(Op::kResize, ResizeAttributes{{columns, rows}}, {x})[0],
              ElementsAre(4, 8, 12));
}

TEST(ResizeKernelTest, AWeightOfZeroKeepsNaNOut) {
  const ResizeAxis axis{
      .axis = 0, .size = 1, .taps = 2, .indices = {0, 1}, .weights = {1, 0}};
  EXPECT_THAT(
      RunOp(Op::kResize, ResizeAttributes{{axis}}, {F({2}, {4, kNaN})})[0],
      ElementsAre(4));
}

}  // namespace
}  // namespace gpupool::engine::reference
