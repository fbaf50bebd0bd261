#include "engine/import/onnx/graph/folding_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace gpupool::engine::onnx_import {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class FoldingBuilderTest : public ::testing::Test {
 protected:
  FoldingBuilder Builder(int64_t budget = kImportBudget) {
    return FoldingBuilder(
        &graph_, ImportBudget(budget), [](const std::string&) {
          return HostTensor{DType::kFloat32, Shape({2}), {3, 4}};
        });
  }
  static ValueId Constant(FoldingBuilder& builder, std::vector<double> x) {
    const auto size = static_cast<int64_t>(x.size());
    return builder.Constant({DType::kFloat32, Shape({size}), std::move(x)});
  }
  static ValueId Emit(FoldingBuilder& builder, Op op, ValueIds inputs) {
    return builder.Emit(op, inputs, {})->front();
  }
  Graph graph_;
};

TEST_F(FoldingBuilderTest, ComputesWhatDependsOnConstantsOnly) {
  FoldingBuilder builder = Builder();
  const ValueId sum =
      Emit(builder, Op::kAdd,
           {Constant(builder, {1, 2}), Constant(builder, {10, 20})});
  EXPECT_TRUE(graph_.nodes().empty());
  EXPECT_EQ(graph_.value(sum).kind, ValueKind::kConstant);
  EXPECT_THAT(graph_.value(sum).constant, ElementsAre(11, 22));
}

TEST_F(FoldingBuilderTest, LeavesNodesToPassesWhereItIsTold) {
  FoldingBuilder builder = Builder();
  const ValueId a = Constant(builder, {1, 2});
  const ValueId b = Constant(builder, {10, 20});
  const ValueId sum =
      builder.EmitUnfolded(Op::kAdd, ValueIds{a, b}, {})->front();
  EXPECT_EQ(graph_.nodes().size(), 1u);
  EXPECT_THAT(builder.Numbers(sum)->numbers, ElementsAre(11, 22));
}

TEST_F(FoldingBuilderTest, EqualNumbersAreKeptOnce) {
  FoldingBuilder builder = Builder();
  const ValueId same = Constant(builder, {5, 5, 5});
  EXPECT_THAT(graph_.value(same).constant, ElementsAre(5));
  const ValueId sum =
      Emit(builder, Op::kAdd, {same, Constant(builder, {1, 2, 3})});
  EXPECT_THAT(builder.Numbers(sum)->numbers, ElementsAre(6, 7, 8));
}

TEST_F(FoldingBuilderTest, RoundsToTheElementType) {
  FoldingBuilder builder = Builder();
  const ValueId sum =
      Emit(builder, Op::kAdd,
           {Constant(builder, {0x1p24, 0}), Constant(builder, {1, 0})});
  EXPECT_EQ(graph_.value(sum).constant[0], 0x1p24);
}

TEST_F(FoldingBuilderTest, WeightsStayInTheGraphButTheirNumbersCanBeAsked) {
  FoldingBuilder builder = Builder();
  const TensorType type{DType::kFloat32, Shape({2})};
  const ValueId weight =
      *builder.builder().Persistent("w", type, MemoryClass::kWeight);
  const ValueId sum = Emit(builder, Op::kAdd, {weight, weight});
  EXPECT_EQ(graph_.nodes().size(), 1u);
  EXPECT_TRUE(builder.HasNumbers(sum));
  EXPECT_THAT(builder.Numbers(sum)->numbers, ElementsAre(6, 8));
}

TEST_F(FoldingBuilderTest, NamesTheInputsThatAValueDependsOn) {
  FoldingBuilder builder = Builder();
  const TensorType type{DType::kFloat32, Shape({2})};
  const ValueId a = *builder.builder().Input("a", type);
  const ValueId b = *builder.builder().Input("b", type);
  const ValueId c = *builder.builder().Input("c", type);
  const ValueId x = Emit(builder, Op::kAdd, {a, Constant(builder, {1, 2})});
  const ValueId y = Emit(builder, Op::kAdd, {x, c});
  EXPECT_THAT(builder.InputsOf(y), ElementsAre("a", "c"));
  EXPECT_THAT(builder.InputsOf(b), ElementsAre("b"));
  EXPECT_FALSE(builder.HasNumbers(y));
  EXPECT_EQ(builder.Numbers(y).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST_F(FoldingBuilderTest, AValueWithoutElementsIsAConstantOfNoInput) {
  FoldingBuilder builder = Builder();
  const ValueId a =
      *builder.builder().Input("a", {DType::kFloat32, Shape({2, 3})});
  const SliceAttributes none{
      .starts = {0, 0}, .steps = {1, 1}, .sizes = {0, 3}};
  const ValueId empty = builder.Emit(Op::kSlice, {a}, none)->front();
  EXPECT_TRUE(graph_.nodes().empty());
  EXPECT_EQ(graph_.value(empty).shape.ToString(), "[0, 3]");
  EXPECT_EQ(graph_.value(empty).kind, ValueKind::kConstant);
  EXPECT_TRUE(builder.HasNumbers(empty));
  EXPECT_TRUE(builder.Numbers(empty)->numbers.empty());
}

TEST_F(FoldingBuilderTest, OpsThatTakeEmptyInputsAreFolded) {
  FoldingBuilder builder = Builder();
  const ValueId none = builder.Constant(
      {DType::kFloat32, Shape::CreateMaybeEmpty({0, 2}).value(), {}});
  const ValueId sum =
      builder
          .Emit(Op::kReduce, {none},
                ReduceAttributes{.function = ReduceFunction::kSum, .axes = {0}})
          ->front();
  EXPECT_THAT(graph_.value(sum).constant, ElementsAre(0, 0));
  // There is no element that an index could name.
  const ValueId zero = builder.Constant({DType::kInt64, Shape({1}), {0}});
  EXPECT_THAT(
      std::string(builder.Emit(Op::kGather, {none, zero}, AxisAttributes{0})
                      .status()
                      .message()),
      HasSubstr("index 0"));
}

TEST_F(FoldingBuilderTest, BeyondTheBudgetNodesStayAndQuestionsAreRefused) {
  FoldingBuilder builder = Builder(10);
  const ValueId sum =
      Emit(builder, Op::kAdd,
           {Constant(builder, {1, 2}), Constant(builder, {10, 20})});
  EXPECT_EQ(graph_.nodes().size(), 1u);
  EXPECT_EQ(builder.Numbers(sum).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace gpupool::engine::onnx_import
