#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "tests/engine/graph/type_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();

TEST(TransposeTypeTest, PermutesAxesOfAnyTypeAndKeepsEmptyOnes) {
  const TransposeAttributes turn{{2, 0, 1}};
  EXPECT_EQ(Only(Op::kTranspose, turn, {F({2, 3, 4})}), F({4, 2, 3}));
  EXPECT_EQ(Only(Op::kTranspose, turn, {{DType::kBool, Empty({0, 3, 4})}}),
            (TensorType{DType::kBool, Empty({4, 0, 3})}));
  EXPECT_EQ(Only(Op::kTranspose, TransposeAttributes{}, {F({})}), F({}));
}

TEST(TransposeTypeTest, RefusesWhatIsNoPermutation) {
  const TensorTypes x{F({2, 3})};
  EXPECT_THAT(Error(Op::kTranspose, TransposeAttributes{{0}}, x),
              HasSubstr("1 entries"));
  EXPECT_THAT(Error(Op::kTranspose, TransposeAttributes{{0, 0}}, x),
              HasSubstr("twice"));
  EXPECT_THAT(Error(Op::kTranspose, TransposeAttributes{{0, 2}}, x),
              HasSubstr("axis 2"));
  EXPECT_THAT(Error(Op::kTranspose, TransposeAttributes{{-1, 0}}, x),
              HasSubstr("axis -1"));
}

TEST(SliceTypeTest, SizesAreThoseOfTheOutput) {
  EXPECT_EQ(
      Only(Op::kSlice, SliceAttributes{{1, 5}, {1, -2}, {3, 3}}, {I64({4, 6})}),
      I64({3, 3}));
  EXPECT_EQ(
      Only(Op::kSlice, SliceAttributes{{9, 0}, {1, 1}, {0, 6}}, {F({4, 6})}),
      F(Empty({0, 6})));
}

TEST(SliceTypeTest, ASingleCellMayHaveAnyStep) {
  for (int64_t step : {int64_t{1}, kMost, kLeast, int64_t{-1}}) {
    EXPECT_EQ(Only(Op::kSlice, SliceAttributes{{3}, {step}, {1}}, {F({4})}),
              F({1}));
  }
}

TEST(SliceTypeTest, RefusesCellsOutside) {
  const TensorTypes x{F({4})};
  const SliceAttributes wrong[] = {{{4}, {1}, {1}},      {{-1}, {1}, {1}},
                                   {{kLeast}, {1}, {1}}, {{1}, {1}, {4}},
                                   {{1}, {2}, {3}},      {{2}, {-1}, {4}},
                                   {{0}, {kMost}, {2}},  {{3}, {kLeast}, {2}},
                                   {{0}, {1}, {kMost}},  {{kMost}, {1}, {2}}};
  for (const SliceAttributes& slice : wrong) {
    EXPECT_THAT(Error(Op::kSlice, slice, x), HasSubstr("leave axis 0"));
  }
  EXPECT_THAT(Error(Op::kSlice, SliceAttributes{{0}, {0}, {1}}, x),
              HasSubstr("step of axis 0 is 0"));
  EXPECT_THAT(Error(Op::kSlice, SliceAttributes{{0}, {1}, {-1}}, x),
              HasSubstr("size -1"));
  EXPECT_THAT(Error(Op::kSlice, SliceAttributes{{0}, {1}, {}}, x),
              HasSubstr("sizes has 0 entries"));
}

TEST(SliceTypeTest, TheGradientHasTheInputsShape) {
  const SliceGradAttributes grad{{{1, 0}, {2, 1}, {2, 3}}, Shape{5, 3}};
  EXPECT_EQ(Only(Op::kSliceGrad, grad, {F({2, 3})}), F({5, 3}));
  EXPECT_THAT(Error(Op::kSliceGrad, grad, {F({3, 3})}), HasSubstr("dy"));
}

TEST(PadTypeTest, AddsCellsOnBothSides) {
  const PadAttributes pad{.before = {1, 0}, .after = {2, 3}};
  EXPECT_EQ(Only(Op::kPad, pad, {F({4, 5})}), F({7, 8}));
  EXPECT_EQ(Only(Op::kPad, pad, {F(Empty({0, 5}))}), F({3, 8}));
  EXPECT_EQ(Only(Op::kPadGrad, pad, {F({7, 8})}), F({4, 5}));
}

TEST(PadTypeTest, ReflectionStaysBelowTheCellsAndEdgesNeedACell) {
  PadAttributes pad{.before = {3}, .after = {0}, .mode = PadMode::kReflect};
  EXPECT_EQ(Only(Op::kPad, pad, {F({4})}), F({7}));
  EXPECT_THAT(Error(Op::kPad, pad, {F({3})}), HasSubstr("below its 3 cells"));
  EXPECT_THAT(Error(Op::kPadGrad, pad, {F({6})}),
              HasSubstr("below its 3 cells"));
  pad.mode = PadMode::kEdge;
  EXPECT_EQ(Only(Op::kPad, pad, {F({1})}), F({4}));
  EXPECT_THAT(Error(Op::kPad, pad, {F(Empty({0}))}), HasSubstr("no edge"));
}

TEST(PadTypeTest, RefusesNegativeAndHugeNumbersAndForeignValues) {
  EXPECT_THAT(Error(Op::kPad, PadAttributes{{-1}, {0}}, {F({4})}),
              HasSubstr("must lie between"));
  EXPECT_THAT(Error(Op::kPad, PadAttributes{{0}, {kMost}}, {F({4})}),
              HasSubstr("must lie between"));
  EXPECT_THAT(
      Error(Op::kPad, PadAttributes{{kMaxElements}, {kMaxElements}}, {F({4})}),
      HasSubstr("more than"));
  EXPECT_THAT(Error(Op::kPadGrad, PadAttributes{{3}, {3}}, {F({4})}),
              HasSubstr("fit into"));
  EXPECT_THAT(Error(Op::kPadGrad, PadAttributes{{kLeast}, {3}}, {F({4})}),
              HasSubstr("at least 0"));
  EXPECT_THAT(Error(Op::kPad, PadAttributes{{1}, {0}, PadMode::kConstant, 0.5},
                    {I64({4})}),
              HasSubstr("no int64"));
  EXPECT_THAT(
      Error(Op::kPad, PadAttributes{{1}, {0}, PadMode::kConstant, std::nan("")},
            {I64({4})}),
      HasSubstr("no int64"));
}

TEST(ConcatTypeTest, AddsTheCellsOfOneAxis) {
  EXPECT_EQ(Only(Op::kConcat, AxisAttributes{1},
                 {F({2, 3}), F(Empty({2, 0})), F({2, 4})}),
            F({2, 7}));
  EXPECT_EQ(Only(Op::kConcat, AxisAttributes{0}, {I64({2})}), I64({2}));
}

TEST(ConcatTypeTest, RefusesInputsThatDifferElsewhere) {
  const AxisAttributes one{1};
  EXPECT_THAT(Error(Op::kConcat, one, {F({2, 3}), F({3, 3})}),
              HasSubstr("axis 1 only"));
  EXPECT_THAT(Error(Op::kConcat, one, {F({2, 3}), F({2, 3, 1})}),
              HasSubstr("axis 1 only"));
  EXPECT_THAT(Error(Op::kConcat, one, {F({2, 3}), I64({2, 3})}),
              HasSubstr("axis 1 only"));
  EXPECT_THAT(Error(Op::kConcat, one, {F({2})}), HasSubstr("axis 1"));
  EXPECT_THAT(Error(Op::kConcat, AxisAttributes{0}, {F({})}),
              HasSubstr("0 dimensions"));
}

TEST(ConcatTypeTest, RefusesMoreCellsThanAnyShapeHas) {
  const TensorType huge = F(Empty({0, kMost}));
  EXPECT_THAT(Error(Op::kConcat, AxisAttributes{1}, {huge, huge}),
              HasSubstr("more than"));
}

TEST(TopKTypeTest, GivesValuesAndInt64Indices) {
  const TensorTypes types =
      Types(Op::kTopK, TopKAttributes{.axis = 1, .k = 2}, {F({3, 5})});
  EXPECT_EQ(types, (TensorTypes{F({3, 2}), I64({3, 2})}));
  EXPECT_EQ(Types(Op::kTopK, TopKAttributes{.k = 0}, {F({3})})[0],
            F(Empty({0})));
  EXPECT_THAT(Error(Op::kTopK, TopKAttributes{.k = 4}, {F({3})}),
              HasSubstr("k 4"));
  EXPECT_THAT(Error(Op::kTopK, TopKAttributes{.k = -1}, {F({3})}),
              HasSubstr("k -1"));
  EXPECT_THAT(Error(Op::kTopK, TopKAttributes{.axis = 1}, {F({3})}),
              HasSubstr("axis 1"));
  EXPECT_THAT(Error(Op::kTopK, TopKAttributes{}, {{DType::kBool, {3}}}),
              HasSubstr("numbers"));
}

TEST(RandomTypeTest, ChecksTheDistribution) {
  const TensorTypes inputs{I64({}), I64({})};
  RandomAttributes random{.shape = {2, 3}};
  EXPECT_EQ(Only(Op::kRandom, random, inputs), F({2, 3}));
  random.first = 2;
  EXPECT_THAT(Error(Op::kRandom, random, inputs), HasSubstr("above high"));
  random.second = std::numeric_limits<double>::infinity();
  EXPECT_THAT(Error(Op::kRandom, random, inputs), HasSubstr("finite"));
  random.distribution = RandomDistribution::kNormal;
  random.second = -1;
  EXPECT_THAT(Error(Op::kRandom, random, inputs), HasSubstr("deviation"));
  random.second = 1;
  random.shape = Shape{kMaxElements};
  EXPECT_THAT(Error(Op::kRandom, random, inputs), HasSubstr("more than"));
  EXPECT_THAT(Error(Op::kRandom, RandomAttributes{}, {F({}), I64({})}),
              HasSubstr("seed"));
}

class ResizeTypeTest : public ::testing::Test {
 protected:
  ResizeAxis axis_{.axis = 1,
                   .size = 2,
                   .taps = 2,
                   .indices = {0, 1, 1, 2},
                   .weights = {0.5, 0.5, 0.5, 0.5}};
};

TEST_F(ResizeTypeTest, AxesGetTheSizesOfTheTables) {
  EXPECT_EQ(Only(Op::kResize, ResizeAttributes{{axis_}}, {F({4, 3})}),
            F({4, 2}));
  EXPECT_EQ(Only(Op::kResize, ResizeAttributes{}, {F({4, 3})}), F({4, 3}));
  EXPECT_EQ(Only(Op::kResizeGrad, ResizeGradAttributes{{{axis_}}, Shape{4, 3}},
                 {F({4, 2})}),
            F({4, 3}));
}

TEST_F(ResizeTypeTest, RefusesTablesThatDoNotFit) {
  const TensorTypes x{F({4, 3})};
  EXPECT_THAT(Error(Op::kResize, ResizeAttributes{{axis_, axis_}}, x),
              HasSubstr("twice"));
  ResizeAxis wrong = axis_;
  wrong.axis = 2;
  EXPECT_THAT(Error(Op::kResize, ResizeAttributes{{wrong}}, x),
              HasSubstr("axis 2"));
  wrong = axis_;
  wrong.indices[3] = 3;
  EXPECT_THAT(Error(Op::kResize, ResizeAttributes{{wrong}}, x),
              HasSubstr("index 3"));
  wrong = axis_;
  wrong.weights[0] = std::nan("");
  EXPECT_THAT(Error(Op::kResize, ResizeAttributes{{wrong}}, x),
              HasSubstr("weight"));
  for (int64_t size : {int64_t{3}, int64_t{-1}, kMost}) {
    wrong = axis_;
    wrong.size = size;
    EXPECT_THAT(Error(Op::kResize, ResizeAttributes{{wrong}}, x),
                HasSubstr("a table of 4"));
  }
  wrong = axis_;
  wrong.taps = 0;
  EXPECT_THAT(Error(Op::kResize, ResizeAttributes{{wrong}}, x),
              HasSubstr("0 taps"));
}

}  // namespace
}  // namespace gpupool::engine
