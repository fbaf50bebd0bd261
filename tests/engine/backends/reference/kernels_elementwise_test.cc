#include <gmock/gmock.h>

#include <cmath>

#include "engine/graph/fused.h"
#include "tests/engine/backends/reference/one_op.h"

namespace gpupool::engine::reference {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Operand Typed(DType dtype, const Shape& shape, Numbers numbers) {
  return {{dtype, shape}, std::move(numbers)};
}
Operand B(const Shape& shape, Numbers numbers) {
  return Typed(DType::kBool, shape, std::move(numbers));
}

Numbers Binary(BinaryFunction function, const Operand& a, const Operand& b) {
  return RunOp(Op::kBinary, BinaryAttributes{function}, {a, b})[0];
}

TEST(UnaryKernelTest, AppliesTheFunctionAndItsDerivative) {
  const UnaryAttributes leaky{UnaryFunction::kLeakyRelu, 0.5};
  EXPECT_THAT(RunOp(Op::kUnary, leaky, {F({3}, {-2, 0, 4})})[0],
              ElementsAre(-1, 0, 4));
  EXPECT_THAT(
      RunOp(Op::kUnaryGrad, leaky, {F({2}, {10, 10}), F({2}, {-2, 4})})[0],
      ElementsAre(5, 10));
}

TEST(BinaryKernelTest, BroadcastsBothInputs) {
  EXPECT_THAT(
      Binary(BinaryFunction::kSubtract, F({2, 1}, {10, 20}), F({3}, {1, 2, 3})),
      ElementsAre(9, 8, 7, 19, 18, 17));
  EXPECT_THAT(Binary(BinaryFunction::kDivide, I({2, 1, 2}, {7, 8, 9, 10}),
                     I({2, 1}, {2, -2})),
              ElementsAre(3, 4, -3, -4, 4, 5, -4, -5));
}

TEST(BinaryKernelTest, EmptyInputsGiveEmptyOutputs) {
  const Shape empty = *Shape::CreateMaybeEmpty({0, 3});
  EXPECT_THAT(Binary(BinaryFunction::kAdd, F(empty, {}), F({}, {1})),
              IsEmpty());
}

TEST(BinaryKernelTest, IntegersWrapInTheirType) {
  EXPECT_THAT(Binary(BinaryFunction::kAdd, Typed(DType::kUint8, {2}, {200, 1}),
                     Typed(DType::kUint8, {1}, {100})),
              ElementsAre(44, 101));
  EXPECT_THAT(
      Binary(BinaryFunction::kMultiply, Typed(DType::kInt8, {2}, {100, -3}),
             Typed(DType::kInt8, {}, {2})),
      ElementsAre(-56, -6));
}

TEST(WhereKernelTest, TakesFromEitherAndIgnoresTheOther) {
  EXPECT_THAT(RunOp(Op::kWhere, {},
                    {B({2, 1}, {1, 0}), F({2}, {1, 2}), F({}, {NAN})})[0][1],
              2);
  EXPECT_THAT(
      RunOp(Op::kWhere, {}, {B({2, 1}, {0, 1}), I({2}, {1, 2}), I({}, {9})})[0],
      ElementsAre(9, 9, 1, 2));
}

TEST(CastKernelTest, IntegersTowardsZeroAndBoolWhereNotZero) {
  const Operand x = F({4}, {-1.7, 0, 0.4, 2.9});
  EXPECT_THAT(RunOp(Op::kCast, CastAttributes{DType::kInt32}, {x})[0],
              ElementsAre(-1, 0, 0, 2));
  EXPECT_THAT(RunOp(Op::kCast, CastAttributes{DType::kBool}, {x})[0],
              ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(RunOp(Op::kCast, CastAttributes{DType::kFloat64},
                    {F({1}, {HUGE_VAL})})[0],
              ElementsAre(HUGE_VAL));
}

TEST(BroadcastKernelTest, RepeatsAxesOfOneAndMissingOnes) {
  EXPECT_THAT(
      RunOp(Op::kBroadcast, ShapeAttributes{{2, 2, 3}}, {F({2, 1}, {1, 2})})[0],
      ElementsAre(1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2));
}

// In relu(x + y) * y > 1 ? gelu' : ..., every kind of step agrees with its
// node.
TEST(FusedKernelTest, AgreesWithItsStepsRunOneByOne) {
  const Operand x = F({2, 3}, {-2, -1, 0, 1, 2, 3});
  const Operand y = F({3}, {0.5, -0.5, 2});
  const BinaryAttributes add{BinaryFunction::kAdd};
  const BinaryAttributes greater{BinaryFunction::kGreater};
  const UnaryAttributes exp{UnaryFunction::kExp};
  const FusedAttributes fused{
      {MakeFusedStep(Op::kBinary, add, {0, 1}),                     // 2
       MakeFusedStep(Op::kRelu, {}, {2}),                           // 3
       MakeFusedStep(Op::kReluGrad, {}, {0, 3}),                    // 4
       MakeFusedStep(Op::kUnary, exp, {4}),                         // 5
       MakeFusedStep(Op::kUnaryGrad, exp, {5, 0}),                  // 6
       MakeFusedStep(Op::kGelu, GeluAttributes{}, {6}),             // 7
       MakeFusedStep(Op::kGeluGrad, GeluAttributes{true}, {7, 0}),  // 8
       MakeFusedStep(Op::kSigmoid, {}, {8}),                        // 9
       MakeFusedStep(Op::kTanh, {}, {9}),                           // 10
       MakeFusedStep(Op::kTanhGrad, {}, {9, 10}),                   // 11
       MakeFusedStep(Op::kSigmoidGrad, {}, {11, 9}),                // 12
       MakeFusedStep(Op::kAdd, {}, {12, 0}),                        // 13
       MakeFusedStep(Op::kBinary, greater, {13, 1}),                // 14
       MakeFusedStep(Op::kWhere, {}, {14, 13, 1}),                  // 15
       MakeFusedStep(Op::kCast, CastAttributes{DType::kInt64}, {15})},
      {15, 16, 14},
      {2, 3}};
  std::vector<Operand> values{
      x, {{DType::kFloat32, {2, 3}}, {0.5, -0.5, 2, 0.5, -0.5, 2}}};
  for (const FusedStep& step : fused.steps) {
    std::vector<Operand> operands;
    TensorTypes types;
    for (int i : step.operands) {
      operands.push_back(values[static_cast<size_t>(i)]);
      types.push_back(operands.back().type);
    }
    values.push_back({(*InferTypes(step.op, StepAttributes(step), types))[0],
                      RunOp(step.op, StepAttributes(step), operands)[0]});
  }
  const auto outputs = RunOp(Op::kFused, fused, {x, y});
  ASSERT_EQ(outputs.size(), 3u);
  EXPECT_EQ(outputs[0], values[15].numbers);
  EXPECT_EQ(outputs[1], values[16].numbers);
  EXPECT_EQ(outputs[2], values[14].numbers);
}

TEST(FusedKernelTest, IntegersBetweenStepsWrapInTheirType) {
  const BinaryAttributes add{BinaryFunction::kAdd};
  const FusedAttributes fused{
      {MakeFusedStep(Op::kBinary, add, {0, 1}),
       MakeFusedStep(Op::kCast, CastAttributes{DType::kFloat32}, {2})},
      {3},
      {1}};
  EXPECT_THAT(RunOp(Op::kFused, fused,
                    {Typed(DType::kUint8, {1}, {200}),
                     Typed(DType::kUint8, {1}, {100})})[0],
              ElementsAre(44));
}

}  // namespace
}  // namespace gpupool::engine::reference
