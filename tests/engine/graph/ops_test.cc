#include "engine/graph/ops.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/engine/graph/type_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

// Returns the only output's shape, or fails.
Shape OnlyShape(Op op, const Attributes& attributes,
                const TensorTypes& inputs) {
  auto types = InferTypes(op, attributes, inputs);
  EXPECT_TRUE(types.ok()) << types.status();
  if (!types.ok()) return {};
  EXPECT_EQ(types->size(), 1u);
  return types->front().shape;
}

TEST(OpTableTest, RowsStandInOrderWithDistinctNames) {
  std::set<std::string> names;
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& info = Info(static_cast<Op>(i));
    EXPECT_EQ(static_cast<int>(info.op), i);
    EXPECT_TRUE(names.insert(std::string(info.name)).second) << info.name;
    for (const Arity& arity : {info.inputs, info.outputs}) {
      EXPECT_TRUE(arity.most == -1 || arity.least <= arity.most) << info.name;
    }
  }
}

TEST(OpTableTest, WrongArityOrAttributesAreRefused) {
  EXPECT_THAT(Error(Op::kAdd, {}, {F({1})}), HasSubstr("1 inputs"));
  EXPECT_THAT(Error(Op::kRelu, GeluAttributes{}, {F({1})}),
              HasSubstr("another op"));
}

TEST(OpTableTest, EmptyInputsAreRefusedWhereNoRuleKnowsThem) {
  const TensorType none = F(*Shape::CreateMaybeEmpty({{0, 3}}));
  EXPECT_EQ(OnlyShape(Op::kSoftmax, {}, {none}), none.shape);
  EXPECT_THAT(Error(Op::kMatMul, MatMulAttributes{}, {none, F({3, 2})}),
              HasSubstr("float32 [0, 3], which has no elements"));
  EXPECT_THAT(
      Error(Op::kBatchNormTraining, NormAttributes{}, {none, F({3}), F({3})}),
      HasSubstr("no elements"));
}

TEST(MatMulTypeTest, MultipliesWithTranspositions) {
  EXPECT_EQ(OnlyShape(Op::kMatMul, MatMulAttributes{}, {F({2, 3}), F({3, 5})}),
            (Shape{2, 5}));
  EXPECT_EQ(OnlyShape(Op::kMatMul, MatMulAttributes{true, true, {}},
                      {F({3, 2}), F({5, 3})}),
            (Shape{2, 5}));
}

TEST(MatMulTypeTest, NamesBothShapesWhenTheyDoNotFit) {
  const std::string error =
      Error(Op::kMatMul, MatMulAttributes{}, {F({2, 3}), F({4, 5})});
  EXPECT_THAT(error, HasSubstr("[2, 3]"));
  EXPECT_THAT(error, HasSubstr("[4, 5]"));
}

TEST(MatMulTypeTest, EpilogueExplainsTheInputs) {
  const MatMulAttributes full{.epilogue = {.bias = true, .residual = true}};
  const TensorTypes good{F({2, 3}), F({3, 5}), F({5}), F({2, 5})};
  EXPECT_EQ(OnlyShape(Op::kMatMul, full, good), (Shape{2, 5}));
  EXPECT_THAT(Error(Op::kMatMul, full, {F({2, 3}), F({3, 5})}),
              HasSubstr("epilogue"));
  EXPECT_THAT(
      Error(Op::kMatMul, full, {F({2, 3}), F({3, 5}), F({4}), F({2, 5})}),
      HasSubstr("bias"));
  EXPECT_THAT(
      Error(Op::kMatMul, full, {F({2, 3}), F({3, 5}), F({5}), F({2, 4})}),
      HasSubstr("residual"));
}

TEST(Conv2dTypeTest, CountsOutputCells) {
  const Conv2dAttributes conv{
      .stride = {2, 1}, .padding = {1, 0}, .dilation = {1, 2}};
  EXPECT_EQ(OnlyShape(Op::kConv2d, conv, {F({1, 2, 8, 8}), F({4, 2, 3, 3})}),
            (Shape{1, 4, 4, 4}));
}

TEST(Conv2dTypeTest, RefusesKernelsThatDoNotFitAndHugeNumbers) {
  const TensorTypes inputs{F({1, 2, 4, 4}), F({4, 2, 5, 5})};
  EXPECT_THAT(Error(Op::kConv2d, Conv2dAttributes{}, inputs),
              HasSubstr("covers 5 cells"));
  EXPECT_THAT(Error(Op::kConv2d, Conv2dAttributes{.stride = {0, 1}}, inputs),
              HasSubstr("stride 0"));
  EXPECT_THAT(Error(Op::kConv2d,
                    Conv2dAttributes{.padding = {INT64_MAX / 2, 0}}, inputs),
              HasSubstr("at most"));
  EXPECT_THAT(Error(Op::kConv2d, Conv2dAttributes{.groups = 3}, inputs),
              HasSubstr("groups 3"));
}

TEST(Conv2dTypeTest, GradientsHaveTheShapesOfTheirOperands) {
  const Conv2dAttributes conv{.stride = {2, 2}};
  const Shape x{2, 3, 8, 8};
  const Shape w{4, 3, 3, 3};
  const Shape dy = OnlyShape(Op::kConv2d, conv, {F(x), F(w)});
  EXPECT_EQ(OnlyShape(Op::kConv2dInputGrad, Conv2dGradAttributes{conv, x},
                      {F(dy), F(w)}),
            x);
  auto types =
      InferTypes(Op::kConv2dWeightGrad, Conv2dGradAttributes{conv, w, true},
                 TensorTypes{F(dy), F(x)});
  ASSERT_TRUE(types.ok()) << types.status();
  EXPECT_EQ(*types, (TensorTypes{F(w), F({4})}));
}

TEST(Conv2dTypeTest, PadsEachSideByItself) {
  const Conv2dAttributes conv{.padding = {{0, 1}, {2, 0}}};
  EXPECT_EQ(OnlyShape(Op::kConv2d, conv, {F({1, 2, 8, 8}), F({4, 2, 3, 3})}),
            (Shape{1, 4, 8, 7}));
}

TEST(Conv2dTypeTest, TakesVolumesWhenTheWindowHasADepth) {
  const Conv2dAttributes conv{.stride = {1, 2, 3}, .dilation = {1, 1, 1}};
  const TensorTypes volumes{F({1, 2, 9, 8, 8}), F({4, 2, 3, 3, 3})};
  EXPECT_EQ(OnlyShape(Op::kConv2d, conv, volumes), (Shape{1, 4, 3, 6, 3}));
  EXPECT_THAT(Error(Op::kConv2d, Conv2dAttributes{}, volumes),
              HasSubstr("stride 0"));
  EXPECT_THAT(Error(Op::kConv2d, conv, {F({1, 2, 8, 8}), F({4, 2, 3, 3})}),
              HasSubstr("depth 3"));
  EXPECT_THAT(Error(Op::kConv2d, conv, {F({1, 2, 9, 8, 8}), F({4, 2, 3, 3})}),
              HasSubstr("same rank"));
}

TEST(PoolTypeTest, PaddingIsLessThanTheKernelCovers) {
  Pool2dAttributes pool{.kernel = {2, 2}, .padding = {{0, 0}, {2, 0}}};
  EXPECT_THAT(Error(Op::kMaxPool, pool, {F({1, 1, 4, 4})}),
              HasSubstr("less than the 2 cells"));
  pool.dilation = {2, 1};
  EXPECT_EQ(OnlyShape(Op::kMaxPool, pool, {F({1, 1, 4, 4})}),
            (Shape{1, 1, 4, 3}));
}

TEST(PoolTypeTest, CeilModeKeepsWindowsThatStartInsideTheInput) {
  Pool2dAttributes pool{.kernel = {2, 2}, .stride = {2, 2}, .ceil_mode = true};
  EXPECT_EQ(OnlyShape(Op::kMaxPool, pool, {F({1, 1, 5, 4})}),
            (Shape{1, 1, 3, 2}));
  // A third window would start behind the input, in the padding.
  pool.kernel = {1, 3};
  pool.stride = {1, 3};
  pool.padding = {{0, 0}, {0, 2}};
  EXPECT_EQ(OnlyShape(Op::kMaxPool, pool, {F({1, 1, 1, 6})}),
            (Shape{1, 1, 1, 2}));
}

TEST(PoolTypeTest, TakesVolumes) {
  const Pool2dAttributes pool{
      .kernel = {2, 3, 4}, .stride = {1, 1, 2}, .dilation = {1, 1, 1}};
  EXPECT_EQ(OnlyShape(Op::kAvgPool, pool, {F({1, 2, 8, 5, 5})}),
            (Shape{1, 2, 3, 4, 3}));
}

TEST(PoolTypeTest, ArgmaxIsAsSmallAsTheWindowAllows) {
  Pool2dAttributes pool{.kernel = {16, 16}, .with_argmax = true};
  const TensorTypes inputs{F({1, 1, 32, 32})};
  EXPECT_EQ((*InferTypes(Op::kMaxPool, pool, inputs))[1].dtype, DType::kUint8);
  pool.kernel = {17, 16};
  EXPECT_EQ((*InferTypes(Op::kMaxPool, pool, inputs))[1].dtype, DType::kInt32);
}

TEST(NormTypeTest, TrainingNeedsMoreThanOneNumberPerChannel) {
  EXPECT_THAT(Error(Op::kBatchNormTraining, NormAttributes{},
                    {F({1, 4}), F({4}), F({4})}),
              HasSubstr("more than one number"));
  EXPECT_TRUE(InferTypes(Op::kBatchNormTraining, NormAttributes{},
                         TensorTypes{F({1, 4, 2, 1}), F({4}), F({4})})
                  .ok());
}

TEST(NormTypeTest, WeightsMustMatchTheChannels) {
  EXPECT_THAT(Error(Op::kBatchNormTraining, NormAttributes{},
                    {F({2, 4}), F({3}), F({4})}),
              HasSubstr("[3]"));
}

TEST(LossTypeTest, LabelsAreWholeNumbersOnePerRow) {
  EXPECT_EQ(
      OnlyShape(Op::kCrossEntropy, LossAttributes{}, {F({4, 3}), I64({4})}),
      Shape());
  EXPECT_THAT(Error(Op::kCrossEntropy, LossAttributes{}, {F({4, 3}), F({4})}),
              HasSubstr("int32 or int64"));
  EXPECT_THAT(Error(Op::kCrossEntropy, LossAttributes{}, {F({4, 3}), I64({5})}),
              HasSubstr("[5]"));
  EXPECT_THAT(Error(Op::kCrossEntropy, LossAttributes{.label_smoothing = 1},
                    {F({4, 3}), I64({4})}),
              HasSubstr("smoothing 1"));
}

TEST(OptimizerTypeTest, InputsFollowTheAttributes) {
  const TensorType p = F({2});
  const TensorType rate{DType::kFloat64, {}};
  const TensorTypes plain{p, p, rate, I64({})};
  EXPECT_EQ(OnlyShape(Op::kSgdStep, SgdAttributes{}, plain), p.shape);
  EXPECT_THAT(Error(Op::kSgdStep, SgdAttributes{.momentum = 0.9}, plain),
              HasSubstr("instead of 5"));
  TensorTypes adam = plain;
  adam.insert(adam.end(), {p, p, F({})});
  EXPECT_EQ(
      InferTypes(Op::kAdamStep, AdamAttributes{.clip = true}, adam)->size(),
      3u);
}

TEST(DropoutTypeTest, ProbabilityIsBelowOne) {
  const TensorTypes inputs{F({4}), I64({}), I64({})};
  EXPECT_EQ(
      OnlyShape(Op::kDropout, DropoutAttributes{.probability = 0}, inputs),
      (Shape{4}));
  EXPECT_THAT(Error(Op::kDropout, DropoutAttributes{.probability = 1}, inputs),
              HasSubstr("probability 1"));
}

TEST(ReshapeTypeTest, KeepsTheElements) {
  EXPECT_EQ(OnlyShape(Op::kReshape, ShapeAttributes{{6}}, {F({2, 3})}),
            (Shape{6}));
  EXPECT_THAT(Error(Op::kReshape, ShapeAttributes{{5}}, {F({2, 3})}),
              HasSubstr("[5]"));
}

}  // namespace
}  // namespace gpupool::engine
