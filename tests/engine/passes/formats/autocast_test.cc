#include "engine/passes/formats/autocast.h"

#include <gmock/gmock.h>

#include <cmath>

#include "engine/passes/pipeline.h"
#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

constexpr DType kLow = DType::kBFloat16;
constexpr DType kWide = DType::kFloat32;

class AutocastTest : public testing::PassTest {
 protected:
  static absl::Status ToBfloat(Graph& graph) { return Autocast(graph, kLow); }
  static absl::Status ToFloat16(Graph& graph) {
    return Autocast(graph, DType::kFloat16);
  }

  ValueId Unary(UnaryFunction function, ValueId x) {
    return Emit(Op::kUnary, {x}, UnaryAttributes{function});
  }
  ValueId Product(ValueId x, const std::string& weight, int64_t columns) {
    const int64_t inner = builder_.shape(x)[1];
    return Emit(Op::kMatMul, {x, Weight(weight, {inner, columns})},
                MatMulAttributes{});
  }
  // Returns the element types of the first outputs of the nodes with that op,
  // in order.
  std::vector<DType> TypesOf(Op op) const {
    std::vector<DType> types;
    for (const Node& node : graph_.nodes()) {
      if (node.op == op) types.push_back(graph_.value(node.outputs[0]).dtype);
    }
    return types;
  }
};

TEST_F(AutocastTest, ProductsAndWhatLiesBetweenThemRunLow) {
  ValueId x = Input("x", {4, 8});
  x = Emit(Op::kRelu, {Product(x, "w1", 8)});
  graph_.AddOutput("y", Product(x, "w2", 2));
  Run(ToBfloat);
  EXPECT_THAT(Ops(), ElementsAre("cast", "cast", "matmul", "relu", "cast",
                                 "matmul", "cast"));
  EXPECT_THAT(TypesOf(Op::kMatMul), ElementsAre(kLow, kLow));
  EXPECT_THAT(TypesOf(Op::kRelu), ElementsAre(kLow));
}

TEST_F(AutocastTest, OutputsInputsAndWeightsKeepTheirTypes) {
  graph_.AddOutput("y", Product(Input("x", {4, 8}), "w", 2));
  Run(ToBfloat);
  EXPECT_EQ(graph_.value(*graph_.FindOutput("y")).dtype, kWide);
  EXPECT_EQ(graph_.FindValue("x")->dtype, kWide);
  EXPECT_EQ(graph_.FindValue("w")->dtype, kWide);
}

TEST_F(AutocastTest, AValueIsCastOnce) {
  const ValueId x = Input("x", {4, 8});
  const ValueId w = Weight("w", {8, 8});
  ValueId y = Emit(Op::kMatMul, {x, w}, MatMulAttributes{});
  y = Emit(Op::kMatMul, {y, w}, MatMulAttributes{});
  const ValueId again = Emit(Op::kMatMul, {x, w}, MatMulAttributes{});
  graph_.AddOutput("y", Emit(Op::kAdd, {y, again}));
  Run(ToBfloat);
  EXPECT_EQ(TypesOf(Op::kCast).size(), 3u) << "x, w and the output";
}

TEST_F(AutocastTest, SoftmaxAndLossStayWide) {
  const ValueId logits = Product(Input("x", {4, 8}), "w", 3);
  const ValueId p = Emit(Op::kSoftmax, {logits});
  const ValueId labels = *builder_.Input("labels", {DType::kInt64, {4}});
  const ValueId loss =
      Emit(Op::kCrossEntropy, {logits, labels}, LossAttributes{});
  graph_.AddOutput("p", p);
  graph_.AddOutput("loss", loss);
  Run(ToBfloat);
  EXPECT_THAT(TypesOf(Op::kSoftmax), ElementsAre(kWide));
  EXPECT_THAT(TypesOf(Op::kCrossEntropy), ElementsAre(kWide));
}

TEST_F(AutocastTest, WhatLeavesTheRangeStaysWide) {
  ValueId x = Product(Input("x", {4, 8}), "w", 3);
  x = Unary(UnaryFunction::kExp, x);
  x = Emit(Op::kReduce, {x}, ReduceAttributes{ReduceFunction::kSum, {1}, true});
  graph_.AddOutput("y", x);
  Run(ToBfloat);
  EXPECT_THAT(TypesOf(Op::kUnary), ElementsAre(kWide));
  EXPECT_THAT(TypesOf(Op::kReduce), ElementsAre(kWide));
}

TEST_F(AutocastTest, TheWidestOperandDecides) {
  const ValueId low = Product(Input("x", {4, 8}), "w", 8);
  const ValueId wide = Input("z", {4, 8});
  graph_.AddOutput("y", Emit(Op::kAdd, {low, wide}));
  Run(ToBfloat);
  EXPECT_THAT(TypesOf(Op::kAdd), ElementsAre(kWide));
}

TEST_F(AutocastTest, WeightsTakeTheTypeOfTheOthers) {
  const ValueId low = Product(Input("x", {4, 8}), "w", 8);
  const ValueId bias = Unary(UnaryFunction::kNegate, Weight("b", {4, 8}));
  graph_.AddOutput("y", Emit(Op::kAdd, {low, bias}));
  Run(ToBfloat);
  EXPECT_THAT(TypesOf(Op::kUnary), ElementsAre(kWide)) << "weights only";
  EXPECT_THAT(TypesOf(Op::kAdd), ElementsAre(kLow));
}

TEST_F(AutocastTest, ConstantsOutOfRangeKeepTheirNeighboursWide) {
  const ValueId x = Product(Input("x", {4, 8}), "w", 8);
  const ValueId hidden = *builder_.Input("hidden", {DType::kBool, {4, 8}});
  const ValueId number = builder_.Constant({kWide, {}}, {-1e9});
  graph_.AddOutput("y", Emit(Op::kWhere, {hidden, number, x}));
  Run(ToFloat16);
  EXPECT_THAT(TypesOf(Op::kWhere), ElementsAre(kWide));
}

TEST_F(AutocastTest, InfinityFits) {
  const ValueId x = Product(Input("x", {4, 8}), "w", 8);
  const ValueId hidden = *builder_.Input("hidden", {DType::kBool, {4, 8}});
  const ValueId number = builder_.Constant({kWide, {}}, {-HUGE_VAL});
  graph_.AddOutput("y", Emit(Op::kWhere, {hidden, number, x}));
  Run(ToFloat16);
  EXPECT_THAT(TypesOf(Op::kWhere), ElementsAre(DType::kFloat16));
}

TEST_F(AutocastTest, EmbeddingsAreGatheredWideAndAddedLow) {
  const ValueId ids = *builder_.Input("ids", {DType::kInt64, {4}});
  const ValueId rows =
      Emit(Op::kGather, {Weight("table", {10, 8}), ids}, AxisAttributes{0});
  graph_.AddOutput("y", Emit(Op::kAdd, {rows, Weight("position", {4, 8})}));
  Run(ToBfloat);
  EXPECT_THAT(TypesOf(Op::kGather), ElementsAre(kWide));
  EXPECT_THAT(TypesOf(Op::kAdd), ElementsAre(kLow));
}

TEST_F(AutocastTest, NormsTakeLowNumbersAndKeepWideStatistics) {
  const ValueId x = Product(Input("x", {4, 8}), "w", 8);
  const ValueId gamma = Weight("gamma", {8}), beta = Weight("beta", {8});
  const auto outputs = builder_.Emit(Op::kLayerNorm, {x, gamma, beta},
                                     NormAttributes{.with_statistics = true});
  ASSERT_TRUE(outputs.ok());
  graph_.AddOutput("y", (*outputs)[0]);
  graph_.AddOutput("mean", (*outputs)[1]);
  graph_.AddOutput("variance", (*outputs)[2]);
  Run(ToBfloat);
  for (const Node& node : graph_.nodes()) {
    if (node.op != Op::kLayerNorm) continue;
    EXPECT_EQ(graph_.value(node.outputs[0]).dtype, kLow);
    EXPECT_EQ(graph_.value(node.outputs[1]).dtype, kWide);
    EXPECT_EQ(graph_.value(node.inputs[1]).dtype, kWide);
  }
}

TEST_F(AutocastTest, RunningStatisticsStayWide) {
  const ValueId x =
      Emit(Op::kConv2d, {Input("x", {2, 3, 4, 4}), Weight("w", {5, 3, 1, 1})},
           Conv2dAttributes{});
  const auto norm = builder_.Emit(
      Op::kBatchNormTraining, {x, Weight("gamma", {5}), Weight("beta", {5})},
      NormAttributes{});
  ASSERT_TRUE(norm.ok());
  const ValueId mean = Weight("mean", {5}), variance = Weight("variance", {5});
  const auto update = builder_.Emit(
      Op::kBatchNormUpdate, {mean, variance, (*norm)[1], (*norm)[2]},
      BatchNormUpdateAttributes{.momentum = 0.1, .count = 32});
  ASSERT_TRUE(update.ok());
  ASSERT_TRUE(builder_.Update((*update)[0], mean).ok());
  ASSERT_TRUE(builder_.Update((*update)[1], variance).ok());
  graph_.AddOutput("y", (*norm)[0]);
  Run(ToBfloat);
  EXPECT_THAT(TypesOf(Op::kBatchNormTraining), ElementsAre(kLow));
  EXPECT_THAT(TypesOf(Op::kBatchNormUpdate), ElementsAre(kWide));
}

TEST_F(AutocastTest, OtherFloatingTypesAreLeftAlone) {
  const TensorType type{DType::kFloat64, {4, 4}};
  const ValueId x = *builder_.Input("x", type);
  const ValueId w = *builder_.Persistent("w", type, MemoryClass::kWeight);
  graph_.AddOutput("y", Emit(Op::kMatMul, {x, w}, MatMulAttributes{}));
  Run(ToBfloat);
  EXPECT_THAT(Ops(), ElementsAre("matmul"));
}

TEST_F(AutocastTest, CastsOfTheModelGiveWhatTheySay) {
  const ValueId x = Product(Input("x", {4, 8}), "w", 8);
  const ValueId whole = Emit(Op::kCast, {x}, CastAttributes{DType::kInt64});
  const ValueId back = Emit(Op::kCast, {whole}, CastAttributes{kWide});
  graph_.AddOutput("y", Emit(Op::kAdd, {x, back}));
  Run(ToBfloat);
  EXPECT_THAT(TypesOf(Op::kAdd), ElementsAre(kWide));
}

// In an inference program, a weight has 16 bits from the load on.
TEST_F(AutocastTest, CastsOfWeightsAreHoisted) {
  const ValueId x = Emit(Op::kRelu, {Product(Input("x", {4, 8}), "w1", 8)});
  graph_.AddOutput("y", Product(x, "w2", 2));
  const absl::Status status = RunPasses(graph_, {.compute = kLow}, nullptr);
  ASSERT_TRUE(status.ok()) << status;
  int loaded = 0;
  for (const Node& node : graph_.nodes()) {
    if (node.stage != Stage::kLoad) continue;
    EXPECT_EQ(node.op, Op::kCast);
    EXPECT_EQ(graph_.value(node.outputs[0]).dtype, kLow);
    ++loaded;
  }
  EXPECT_EQ(loaded, 2);
}

TEST_F(AutocastTest, ThePassLeavesTrainingStepsAlone) {
  const ValueId w = Weight("w", {8, 8});
  const ValueId y =
      Emit(Op::kMatMul, {Input("x", {8, 8}), w}, MatMulAttributes{});
  graph_.AddOutput("y", y);
  ASSERT_TRUE(builder_.Update(Emit(Op::kAdd, {w, y}), w).ok());
  ASSERT_TRUE(RunPasses(graph_, {.compute = kLow}, nullptr).ok());
  EXPECT_TRUE(TypesOf(Op::kCast).empty());
}

}  // namespace
}  // namespace gpupool::engine
