#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/engine/backends/reference/one_op.h"

namespace gpupool::engine::reference {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Error(Op op, const Attributes& attributes,
                  const std::vector<Operand>& operands) {
  const auto outputs = TryRunOp(op, attributes, operands);
  EXPECT_EQ(outputs.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(outputs.status().message());
}

const Operand kMatrix = F({3, 2}, {1, 2, 3, 4, 5, 6});

TEST(GatherKernelTest, ReplacesTheAxisByTheIndices) {
  EXPECT_THAT(
      RunOp(Op::kGather, AxisAttributes{0}, {kMatrix, I({2}, {2, 0})})[0],
      ElementsAre(5, 6, 1, 2));
  EXPECT_THAT(
      RunOp(Op::kGather, AxisAttributes{1}, {kMatrix, I({1, 2}, {-1, 0})})[0],
      ElementsAre(2, 1, 4, 3, 6, 5));
  EXPECT_THAT(RunOp(Op::kGather, AxisAttributes{0}, {kMatrix, I({}, {-2})})[0],
              ElementsAre(3, 4));
}

TEST(GatherKernelTest, MiddleAxesKeepWhatStandsOnBothSides) {
  Numbers x;
  for (int i = 0; i < 24; ++i) x.push_back(i);
  const Numbers y = RunOp(Op::kGather, AxisAttributes{1},
                          {F({2, 3, 4}, x), I({2, 2}, {0, 2, 2, 1})})[0];
  const int rows[] = {0, 2, 2, 1};
  size_t at = 0;
  for (int i = 0; i < 2; ++i) {
    for (int row : rows) {
      for (int k = 0; k < 4; ++k) EXPECT_EQ(y[at++], 12 * i + 4 * row + k);
    }
  }
}

TEST(GatherKernelTest, NoIndicesGatherNothing) {
  const Operand none{{DType::kInt64, *Shape::CreateMaybeEmpty({{0}})}, {}};
  EXPECT_THAT(RunOp(Op::kGather, AxisAttributes{0}, {kMatrix, none})[0],
              IsEmpty());
}

TEST(GatherKernelTest, TheGradientAddsPerIndex) {
  const GatherGradAttributes grad{.axis = 0, .input = Shape{3, 2}};
  EXPECT_THAT(
      RunOp(Op::kGatherGrad, grad,
            {F({3, 2}, {1, 2, 10, 20, 100, 200}), I({3}, {2, -1, 0})})[0],
      ElementsAre(100, 200, 0, 0, 11, 22));
}

TEST(GatherKernelTest, AnIndexOutsideIsNamedWithTheLimit) {
  for (double index : {3.0, -4.0, 1e300}) {
    EXPECT_THAT(
        Error(Op::kGather, AxisAttributes{0}, {kMatrix, I({1}, {index})}),
        HasSubstr("-3 .. 2"));
  }
  EXPECT_THAT(Error(Op::kGather, AxisAttributes{0}, {kMatrix, I({1}, {3})}),
              HasSubstr("index 3 "));
  EXPECT_THAT(Error(Op::kGatherGrad, GatherGradAttributes{0, Shape{3, 2}},
                    {F({1, 2}, {1, 2}), I({1}, {7})}),
              HasSubstr("index 7 "));
}

Operand WholeNumbers(Numbers numbers) {
  const Shape shape{static_cast<int64_t>(numbers.size())};
  return {{DType::kInt32, shape}, std::move(numbers)};
}

// Slot 2 compares column 1 with 0.5 and slot 3 column 0 with 2, where NaN
// counts as small. Slots 0 and 1 are leaves.
TEST(TreeWalkKernelTest, RowsGoOnUntilALeaf) {
  const double nan = std::nan("");
  const Numbers x{3, 0.5, 3, 0.75, 2, 1, nan, 1, 0, nan};
  const Numbers y =
      RunOp(Op::kTreeWalk, TreeWalkAttributes{2},
            {F({5, 2}, x), WholeNumbers({0, 0, 1, -1}), F({4}, {0, 0, 0.5, 2}),
             WholeNumbers({0, 1, 3, 0}), WholeNumbers({0, 1, 1, 1}),
             WholeNumbers({2, 3})})[0];
  EXPECT_THAT(y, ElementsAre(1, 0, 0, 0, 1, 1, 1, 1, 1, 1));
}

TEST(TreeWalkKernelTest, ASlotOutsideIsNamed) {
  const auto error = [](double column, double link) {
    return Error(
        Op::kTreeWalk, TreeWalkAttributes{2},
        {F({1, 2}, {0, 0}), WholeNumbers({column, 0}), F({2}, {1, 1}),
         WholeNumbers({0, 1}), WholeNumbers({link, 1}), WholeNumbers({0})});
  };
  EXPECT_THAT(error(0, 2), HasSubstr("index 2 "));
  EXPECT_THAT(error(2, 1), HasSubstr("index 2 "));
}

TEST(GatherElementsKernelTest, ReplacesOneCoordinate) {
  EXPECT_THAT(RunOp(Op::kGatherElements, AxisAttributes{0},
                    {kMatrix, I({2, 2}, {2, 0, -2, 1})})[0],
              ElementsAre(5, 2, 3, 4));
  EXPECT_THAT(RunOp(Op::kGatherElements, AxisAttributes{1},
                    {kMatrix, I({2, 3}, {0, 0, 1, -1, 0, 0})})[0],
              ElementsAre(1, 1, 2, 4, 3, 3));
  EXPECT_THAT(
      Error(Op::kGatherElements, AxisAttributes{1}, {kMatrix, I({1, 1}, {2})}),
      HasSubstr("-2 .. 1"));
}

TEST(GatherNdKernelTest, TuplesPointAtCellsOrRows) {
  EXPECT_THAT(RunOp(Op::kGatherNd, GatherNdAttributes{},
                    {kMatrix, I({2, 2}, {0, 1, -1, 0})})[0],
              ElementsAre(2, 5));
  EXPECT_THAT(RunOp(Op::kGatherNd, GatherNdAttributes{},
                    {kMatrix, I({2, 1, 1}, {1, 0})})[0],
              ElementsAre(3, 4, 1, 2));
  EXPECT_THAT(
      Error(Op::kGatherNd, GatherNdAttributes{}, {kMatrix, I({1, 2}, {0, 2})}),
      HasSubstr("index 2 "));
}

TEST(GatherNdKernelTest, BatchAxesAreSharedByBoth) {
  const Operand x = F({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7});
  EXPECT_THAT(RunOp(Op::kGatherNd, GatherNdAttributes{.batch_dims = 1},
                    {x, I({2, 1}, {1, 0})})[0],
              ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(RunOp(Op::kGatherNd, GatherNdAttributes{.batch_dims = 2},
                    {x, I({2, 2, 1}, {0, 1, 1, 0})})[0],
              ElementsAre(0, 3, 5, 6));
}

// Two updates meet at one cell, for each reduction.
TEST(ScatterElementsKernelTest, CombinesUpdatesInOrder) {
  const std::pair<ScatterReduction, double> forms[] = {
      {ScatterReduction::kNone, 2},
      {ScatterReduction::kAdd, 11},
      {ScatterReduction::kMultiply, 40},
      {ScatterReduction::kMinimum, 2},
      {ScatterReduction::kMaximum, 5}};
  for (const auto& [reduction, expected] : forms) {
    const auto y =
        RunOp(Op::kScatterElements, ScatterAttributes{.reduction = reduction},
              {F({3}, {1, 4, 7}), I({2}, {1, -2}), F({2}, {5, 2})});
    EXPECT_THAT(y[0], ElementsAre(1, expected, 7));
  }
}

TEST(ScatterElementsKernelTest, MinimumAndMaximumKeepNaN) {
  for (ScatterReduction reduction :
       {ScatterReduction::kMinimum, ScatterReduction::kMaximum}) {
    const Numbers y =
        RunOp(Op::kScatterElements, ScatterAttributes{.reduction = reduction},
              {F({2}, {NAN, 1}), I({2}, {0, 1}), F({2}, {3, NAN})})[0];
    EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]));
  }
}

TEST(ScatterElementsKernelTest, ReplacesOneCoordinate) {
  EXPECT_THAT(RunOp(Op::kScatterElements, ScatterAttributes{.axis = 1},
                    {kMatrix, I({2, 1}, {1, 0}), F({2, 1}, {8, 9})})[0],
              ElementsAre(1, 8, 9, 4, 5, 6));
  EXPECT_THAT(Error(Op::kScatterElements, ScatterAttributes{.axis = 1},
                    {kMatrix, I({1, 1}, {-3}), F({1, 1}, {8})}),
              HasSubstr("-2 .. 1"));
}

TEST(ScatterNdKernelTest, TuplesPointAtCellsOrRows) {
  EXPECT_THAT(RunOp(Op::kScatterNd, ScatterAttributes{},
                    {kMatrix, I({2, 2}, {0, 1, -1, 0}), F({2}, {8, 9})})[0],
              ElementsAre(1, 8, 3, 4, 9, 6));
  EXPECT_THAT(
      RunOp(Op::kScatterNd,
            ScatterAttributes{.reduction = ScatterReduction::kAdd},
            {kMatrix, I({2, 1}, {1, 1}), F({2, 2}, {10, 20, 100, 200})})[0],
      ElementsAre(1, 2, 113, 224, 5, 6));
  EXPECT_THAT(Error(Op::kScatterNd, ScatterAttributes{},
                    {kMatrix, I({1, 1}, {3}), F({1, 2}, {8, 9})}),
              HasSubstr("index 3 "));
}

}  // namespace
}  // namespace gpupool::engine::reference
