#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/graph/fused.h"
#include "engine/graph/ops.h"
#include "tests/engine/graph/type_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

TensorType B(const Shape& shape) { return {DType::kBool, shape}; }

UnaryAttributes U(UnaryFunction function) { return {function}; }
BinaryAttributes Bin(BinaryFunction function) { return {function}; }

TEST(UnaryTypeTest, NumbersKeepTheirType) {
  for (const DType dtype : {DType::kInt8, DType::kInt64, DType::kFloat16}) {
    const TensorType x{dtype, {2, 3}};
    EXPECT_EQ(Only(Op::kUnary, U(UnaryFunction::kAbs), {x}), x);
  }
  EXPECT_EQ(Only(Op::kUnary, U(UnaryFunction::kExp), {F(Empty({0, 2}))}),
            F(Empty({0, 2})));
}

TEST(UnaryTypeTest, PredicatesGiveBool) {
  EXPECT_EQ(Only(Op::kUnary, U(UnaryFunction::kIsNan), {F({2})}), B({2}));
  EXPECT_EQ(Only(Op::kUnary, U(UnaryFunction::kNot), {B({2})}), B({2}));
}

TEST(UnaryTypeTest, RefusesElementsThatTheFunctionIsNotDefinedFor) {
  EXPECT_THAT(Error(Op::kUnary, U(UnaryFunction::kExp), {I64({2})}),
              HasSubstr("floating point"));
  EXPECT_THAT(Error(Op::kUnary, U(UnaryFunction::kAbs), {B({2})}),
              HasSubstr("bool"));
  EXPECT_THAT(Error(Op::kUnary, U(UnaryFunction::kNot), {F({2})}),
              HasSubstr("needs bool"));
  EXPECT_THAT(
      Error(Op::kUnary, UnaryAttributes{UnaryFunction::kClip, NAN}, {F({2})}),
      HasSubstr("NaN"));
  EXPECT_THAT(Error(Op::kUnary, U(UnaryFunction::kCelu), {F({2})}),
              HasSubstr("celu"));
}

TEST(UnaryTypeTest, GradientNeedsTwoEqualFloatingInputs) {
  EXPECT_EQ(
      Only(Op::kUnaryGrad, U(UnaryFunction::kExp), {F({2, 3}), F({2, 3})}),
      F({2, 3}));
  EXPECT_THAT(Error(Op::kUnaryGrad, U(UnaryFunction::kExp), {F({3}), F({2})}),
              HasSubstr("dy"));
  EXPECT_THAT(
      Error(Op::kUnaryGrad, U(UnaryFunction::kAbs), {I64({3}), I64({3})}),
      HasSubstr("floating"));
  EXPECT_THAT(Error(Op::kUnaryGrad, U(UnaryFunction::kIsNan), {F({3}), F({3})}),
              HasSubstr("no derivative"));
}

TEST(BinaryTypeTest, BroadcastsAndKeepsTheElementType) {
  EXPECT_EQ(Only(Op::kBinary, Bin(BinaryFunction::kAdd),
                 {I64({2, 1, 3}), I64({4, 1})}),
            I64({2, 4, 3}));
  EXPECT_EQ(
      Only(Op::kBinary, Bin(BinaryFunction::kPower), {F(Empty({0, 3})), F({})}),
      F(Empty({0, 3})));
}

TEST(BinaryTypeTest, LogicKeepsBoolAndIntegers) {
  for (const TensorType& type : {B({3}), I64({3})}) {
    EXPECT_EQ(Only(Op::kBinary, Bin(BinaryFunction::kXor), {type, type}), type);
  }
}

TEST(BinaryTypeTest, ComparisonsOfAnyTypeGiveBool) {
  for (const DType dtype : {DType::kFloat32, DType::kInt64, DType::kBool}) {
    EXPECT_EQ(Only(Op::kBinary, Bin(BinaryFunction::kLess),
                   {{dtype, {2, 1}}, {dtype, {3}}}),
              B({2, 3}));
  }
}

TEST(BinaryTypeTest, RefusesElementsThatTheFunctionIsNotDefinedFor) {
  EXPECT_THAT(Error(Op::kBinary, Bin(BinaryFunction::kAdd), {F({2}), I64({2})}),
              HasSubstr("element types differ"));
  EXPECT_THAT(Error(Op::kBinary, Bin(BinaryFunction::kAdd), {B({2}), B({2})}),
              HasSubstr("needs numbers"));
  EXPECT_THAT(Error(Op::kBinary, Bin(BinaryFunction::kAnd), {F({2}), F({2})}),
              HasSubstr("needs bool or integers"));
  EXPECT_THAT(
      Error(Op::kBinary, Bin(BinaryFunction::kShiftLeft), {F({2}), F({2})}),
      HasSubstr("integers"));
  EXPECT_THAT(Error(Op::kBinary, Bin(BinaryFunction::kAdd), {F({2}), F({3})}),
              HasSubstr("[2] and [3]"));
}

TEST(WhereTypeTest, BroadcastsConditionAndValues) {
  EXPECT_EQ(Only(Op::kWhere, {}, {B({4, 1}), I64({3}), I64({2, 1, 1})}),
            I64({2, 4, 3}));
  EXPECT_THAT(Error(Op::kWhere, {}, {F({4}), F({4}), F({4})}),
              HasSubstr("needs bool"));
  EXPECT_THAT(Error(Op::kWhere, {}, {B({4}), F({4}), I64({4})}),
              HasSubstr("element types differ"));
  EXPECT_THAT(Error(Op::kWhere, {}, {B({4}), F({3}), F({3})}),
              HasSubstr("do not broadcast"));
}

TEST(CastTypeTest, ChangesTheElementTypeOnly) {
  EXPECT_EQ(Only(Op::kCast, CastAttributes{DType::kInt64}, {F(Empty({0}))}),
            I64(Empty({0})));
}

// x * 2 > y, and x * 2 as int64.
FusedAttributes Doubled(const Shape& shape) {
  return {{MakeFusedStep(Op::kBinary, Bin(BinaryFunction::kMultiply), {0, 1}),
           MakeFusedStep(Op::kBinary, Bin(BinaryFunction::kGreater), {3, 2}),
           MakeFusedStep(Op::kCast, CastAttributes{DType::kInt64}, {3})},
          {4, 5},
          shape};
}

TEST(FusedTypeTest, EveryResultHasTheTypeOfItsStep) {
  EXPECT_EQ(Types(Op::kFused, Doubled({2, 3}), {F({2, 3}), F({}), F({3})}),
            (TensorTypes{B({2, 3}), I64({2, 3})}));
}

TEST(FusedTypeTest, RefusesUnsoundSteps) {
  const TensorTypes inputs{F({2, 3}), F({}), F({3})};
  FusedAttributes fused = Doubled({2, 3});
  EXPECT_THAT(Error(Op::kFused, Doubled({3}), inputs),
              HasSubstr("does not broadcast"));
  fused.steps[0].operands = {0, 3};
  EXPECT_THAT(Error(Op::kFused, fused, inputs), HasSubstr("operand 3"));
  fused.steps[0].operands = {-1, 0};
  EXPECT_THAT(Error(Op::kFused, fused, inputs), HasSubstr("operand -1"));
  fused.steps[0].operands = {0};
  EXPECT_THAT(Error(Op::kFused, fused, inputs), HasSubstr("1 inputs"));
  fused = Doubled({2, 3});
  fused.steps[0].attributes = GeluAttributes{};
  EXPECT_THAT(Error(Op::kFused, fused, inputs), HasSubstr("another op"));
  fused = Doubled({2, 3});
  fused.steps[2].op = Op::kSoftmax;
  EXPECT_THAT(Error(Op::kFused, fused, inputs), HasSubstr("softmax"));
  fused = Doubled({2, 3});
  fused.results = {2};
  EXPECT_THAT(Error(Op::kFused, fused, inputs), HasSubstr("result 2"));
  fused.results = {6};
  EXPECT_THAT(Error(Op::kFused, fused, inputs), HasSubstr("result 6"));
  fused.results = {};
  EXPECT_THAT(Error(Op::kFused, fused, inputs), HasSubstr("at least one"));
}

TEST(ReduceTypeTest, DropsOrKeepsTheAxes) {
  const auto sum = ReduceFunction::kSum;
  EXPECT_EQ(
      Only(Op::kReduce, ReduceAttributes{sum, {0, 2}, false}, {F({2, 3, 4})}),
      F({3}));
  EXPECT_EQ(
      Only(Op::kReduce, ReduceAttributes{sum, {0, 2}, true}, {F({2, 3, 4})}),
      F({1, 3, 1}));
  EXPECT_EQ(Only(Op::kReduce, ReduceAttributes{sum, {0}, false},
                 {I64(Empty({0, 3}))}),
            I64({3}));
  EXPECT_EQ(Only(Op::kReduce,
                 ReduceAttributes{ReduceFunction::kMax, {0}, false}, {B({2})}),
            B({}));
}

TEST(ReduceTypeTest, RefusesWrongAxesAndElements) {
  const auto sum = ReduceFunction::kSum;
  EXPECT_THAT(Error(Op::kReduce, ReduceAttributes{sum, {}, false}, {F({2})}),
              HasSubstr("at least one axis"));
  EXPECT_THAT(Error(Op::kReduce, ReduceAttributes{sum, {1}, false}, {F({2})}),
              HasSubstr("axis 1"));
  EXPECT_THAT(Error(Op::kReduce, ReduceAttributes{sum, {-1}, false}, {F({2})}),
              HasSubstr("axis -1"));
  EXPECT_THAT(
      Error(Op::kReduce, ReduceAttributes{sum, {1, 0}, false}, {F({2, 2})}),
      HasSubstr("must rise"));
  EXPECT_THAT(
      Error(Op::kReduce, ReduceAttributes{sum, {1, 1}, false}, {F({2, 2})}),
      HasSubstr("must rise"));
  EXPECT_THAT(Error(Op::kReduce, ReduceAttributes{sum, {0}, false}, {B({2})}),
              HasSubstr("needs numbers"));
  EXPECT_THAT(
      Error(Op::kReduce, ReduceAttributes{ReduceFunction::kMean, {0}, false},
            {I64(Empty({0}))}),
      HasSubstr("undefined"));
}

TEST(ArgReduceTypeTest, GivesPositions) {
  EXPECT_EQ(
      Only(Op::kArgReduce, ArgReduceAttributes{.axis = 1}, {F({2, 3, 4})}),
      I64({2, 4}));
  EXPECT_EQ(
      Only(Op::kArgReduce, ArgReduceAttributes{.axis = 1, .keep_dims = true},
           {F({2, 3, 4})}),
      I64({2, 1, 4}));
  EXPECT_THAT(
      Error(Op::kArgReduce, ArgReduceAttributes{.axis = 2}, {F({2, 3})}),
      HasSubstr("axis 2"));
  EXPECT_THAT(
      Error(Op::kArgReduce, ArgReduceAttributes{.axis = 0}, {F(Empty({0, 3}))}),
      HasSubstr("is empty"));
}

TEST(CumSumTypeTest, KeepsTheType) {
  EXPECT_EQ(Only(Op::kCumSum, CumSumAttributes{.axis = 1}, {I64({2, 3})}),
            I64({2, 3}));
  EXPECT_THAT(Error(Op::kCumSum, CumSumAttributes{.axis = 2}, {I64({2, 3})}),
              HasSubstr("axis 2"));
  EXPECT_THAT(Error(Op::kCumSum, CumSumAttributes{}, {B({2})}),
              HasSubstr("needs numbers"));
}

TEST(BroadcastTypeTest, GivesExactlyTheWantedShape) {
  EXPECT_EQ(Only(Op::kBroadcast, ShapeAttributes{{2, 3}}, {B({3})}), B({2, 3}));
  EXPECT_EQ(Only(Op::kBroadcast, ShapeAttributes{Empty({0, 3})}, {F({1})}),
            F(Empty({0, 3})));
  EXPECT_THAT(Error(Op::kBroadcast, ShapeAttributes{{3}}, {F({2, 3})}),
              HasSubstr("does not broadcast to [3]"));
  EXPECT_THAT(Error(Op::kBroadcast, ShapeAttributes{{2, 1}}, {F({3})}),
              HasSubstr("does not broadcast to [2, 1]"));
}

TEST(RowsTypeTest, OpsOverTheLastDimensionNeedOne) {
  EXPECT_THAT(Error(Op::kLogSoftmax, {}, {F({})}),
              HasSubstr("at least one dimension"));
  EXPECT_THAT(Error(Op::kLogSoftmaxGrad, {}, {F({}), F({})}),
              HasSubstr("at least one dimension"));
  EXPECT_EQ(Only(Op::kLogSoftmax, {}, {F({2, 3})}), F({2, 3}));
}

}  // namespace
}  // namespace gpupool::engine
