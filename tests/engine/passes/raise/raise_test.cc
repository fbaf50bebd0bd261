#include "engine/passes/raise/raise.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "engine/passes/simplify/fold_constants.h"
#include "engine/passes/simplify/simplify.h"
#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class RaiseTest : public testing::PassTest {
 protected:
  ValueId Number(double x) { return builder_.Constant(F({}), {x}); }
  ValueId Unary(UnaryFunction f, ValueId x, double alpha = 0, double beta = 0) {
    return Emit(Op::kUnary, {x}, UnaryAttributes{f, alpha, beta});
  }
  ValueId Binary(BinaryFunction f, ValueId a, ValueId b) {
    return Emit(Op::kBinary, {a, b}, BinaryAttributes{f});
  }
  ValueId Multiply(ValueId a, ValueId b) {
    return Binary(BinaryFunction::kMultiply, a, b);
  }
  ValueId Add(ValueId a, ValueId b) {
    return Binary(BinaryFunction::kAdd, a, b);
  }
  ValueId Mean(ValueId x) {
    const int last = graph_.value(x).shape.rank() - 1;
    return Emit(Op::kReduce, {x},
                ReduceAttributes{ReduceFunction::kMean, {last}, true});
  }
  void Finish(ValueId y) {
    graph_.AddOutput("out", y);
    Run(Simplify);
    Run(FoldConstants);
    Run(Raise);
  }
  UnaryFunction OnlyFunction() {
    return graph_.nodes()[0].get<UnaryAttributes>().function;
  }
};

TEST_F(RaiseTest, GeluInItsErfFormWithRoundedConstants) {
  const ValueId x = Input("x", {2, 3});
  const ValueId root = Number(static_cast<float>(std::sqrt(2.0)));
  const ValueId erf =
      Unary(UnaryFunction::kErf, Binary(BinaryFunction::kDivide, x, root));
  Finish(Multiply(Multiply(x, Add(erf, Number(1))), Number(0.5)));
  ASSERT_THAT(Ops(), ElementsAre("gelu"));
  EXPECT_FALSE(graph_.nodes()[0].get<GeluAttributes>().tanh_approximation);
}

TEST_F(RaiseTest, GeluInItsTanhForm) {
  const ValueId x = Input("x", {2, 3});
  const ValueId cube = Multiply(Multiply(x, x), x);
  const ValueId inner = Multiply(Add(x, Multiply(cube, Number(0.044715f))),
                                 Number(0.7978845608028654));
  const ValueId one_more = Add(Number(1), Emit(Op::kTanh, {inner}));
  Finish(Multiply(Multiply(Number(0.5), x), one_more));
  ASSERT_THAT(Ops(), ElementsAre("gelu"));
  EXPECT_TRUE(graph_.nodes()[0].get<GeluAttributes>().tanh_approximation);
}

TEST_F(RaiseTest, SiluByTwoWays) {
  const ValueId x = Input("x", {2, 3});
  graph_.AddOutput("first", Multiply(x, Emit(Op::kSigmoid, {x})));
  const ValueId z = Input("z", {2, 3});
  const ValueId decay =
      Unary(UnaryFunction::kExp, Unary(UnaryFunction::kNegate, z));
  Finish(Binary(BinaryFunction::kDivide, z, Add(decay, Number(1))));
  ASSERT_THAT(Ops(), ElementsAre("unary", "unary"));
  for (const Node& node : graph_.nodes()) {
    EXPECT_EQ(node.get<UnaryAttributes>().function, UnaryFunction::kSilu);
  }
}

TEST_F(RaiseTest, HardSwish) {
  const ValueId x = Input("x", {2, 3});
  const ValueId gate = Unary(UnaryFunction::kClip, Add(x, Number(3)), 0, 6);
  Finish(Binary(BinaryFunction::kDivide, Multiply(x, gate), Number(6)));
  ASSERT_THAT(Ops(), ElementsAre("unary"));
  EXPECT_EQ(OnlyFunction(), UnaryFunction::kHardSwish);
}

TEST_F(RaiseTest, TheLargerOfXAndZeroIsRelu) {
  Finish(Binary(BinaryFunction::kMaximum, Input("x", {2}), Number(0)));
  EXPECT_THAT(Ops(), ElementsAre("relu"));
}

TEST_F(RaiseTest, AClipWithAFarBoundIsNoRelu) {
  for (const double bound : {20.0, 255.0, 65504.0, 1e9}) {
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    Finish(Unary(UnaryFunction::kClip, Input("x", {2}), 0, bound));
    EXPECT_THAT(Ops(), ElementsAre("unary")) << bound;
  }
}

TEST_F(RaiseTest, AClipWithoutAnUpperBoundIsRelu) {
  const double none = std::numeric_limits<float>::max();
  Finish(Unary(UnaryFunction::kClip, Input("x", {2}), 0, none));
  EXPECT_THAT(Ops(), ElementsAre("relu"));
}

TEST_F(RaiseTest, ABoundFarOutIsStillABound) {
  for (const double bound : {6.0, 255.0, 1e6}) {
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    Finish(Unary(UnaryFunction::kClip, Input("x", {2}), 0, bound));
    EXPECT_THAT(Ops(), ElementsAre("unary")) << bound;
  }
}

TEST_F(RaiseTest, ACoarseGeluIsNotGelu) {
  const ValueId x = Input("x", {2, 3});
  Finish(Multiply(x, Emit(Op::kSigmoid, {Multiply(x, Number(1.702))})));
  EXPECT_THAT(Ops(), ElementsAre("binary", "sigmoid", "binary"));
}

TEST_F(RaiseTest, APartThatIsReadElsewhereKeepsTheExpression) {
  const ValueId x = Input("x", {2, 3});
  const ValueId gate = Emit(Op::kSigmoid, {x});
  graph_.AddOutput("gate", gate);
  Finish(Multiply(x, gate));
  EXPECT_THAT(Ops(), ElementsAre("sigmoid", "binary"));
}

TEST_F(RaiseTest, AMaximumKeepsItsPlaceForTheGradient) {
  graph_.AddOutput("loss", Emit(Op::kMaxPool, {Input("x", {1, 1, 4, 4})},
                                Pool2dAttributes{.kernel = {2, 2}}));
  Run(Raise);
  EXPECT_EQ(graph_.nodes()[0].outputs.size(), 1u);
  Run(RaisePatterns);
  ASSERT_THAT(Ops(), ElementsAre("max_pool"));
  EXPECT_EQ(graph_.nodes()[0].outputs.size(), 2u);
}

class RaiseLayerNormTest : public RaiseTest {
 protected:
  ValueId Normalise(ValueId x, double epsilon) {
    const ValueId centred = Binary(BinaryFunction::kSubtract, x, Mean(x));
    const ValueId squares = Binary(BinaryFunction::kPower, centred, Number(2));
    const ValueId root =
        Unary(UnaryFunction::kSqrt, Add(Mean(squares), Number(epsilon)));
    return Binary(BinaryFunction::kDivide, centred, root);
  }
};

TEST_F(RaiseLayerNormTest, WithGammaAndBeta) {
  const ValueId x = Input("x", {2, 3, 8});
  const ValueId gamma = Weight("gamma", {8});
  const ValueId beta = Weight("beta", {8});
  Finish(Add(beta, Multiply(Normalise(x, 1e-5), gamma)));
  ASSERT_THAT(Ops(), ElementsAre("layer_norm"));
  EXPECT_THAT(graph_.nodes()[0].inputs, ElementsAre(x, gamma, beta));
  EXPECT_EQ(graph_.nodes()[0].get<NormAttributes>().epsilon, 1e-5);
}

TEST_F(RaiseLayerNormTest, WithoutThem) {
  Finish(Normalise(Input("x", {2, 8}), 1e-6));
  EXPECT_THAT(Ops(), ElementsAre("layer_norm"));
}

TEST_F(RaiseLayerNormTest, KeepsStatisticsForTheGradient) {
  graph_.AddOutput("loss", Normalise(Input("x", {2, 8}), 1e-6));
  Run(RaisePatterns);
  ASSERT_THAT(Ops(), ElementsAre("layer_norm"));
  EXPECT_EQ(graph_.nodes()[0].outputs.size(), 3u);
}

TEST_F(RaiseLayerNormTest, AMeanOverAnotherAxisIsNone) {
  const ValueId x = Input("x", {2, 3, 8});
  const ValueId mean = Emit(Op::kReduce, {x},
                            ReduceAttributes{ReduceFunction::kMean, {1}, true});
  const ValueId centred = Binary(BinaryFunction::kSubtract, x, mean);
  const ValueId variance = Mean(Multiply(centred, centred));
  const ValueId root = Unary(UnaryFunction::kSqrt, Add(variance, Number(1e-5)));
  Finish(Binary(BinaryFunction::kDivide, centred, root));
  EXPECT_THAT(Ops(), ::testing::Not(::testing::Contains("layer_norm")));
}

class RaiseAttentionTest : public RaiseTest {
 protected:
  static constexpr int64_t kSteps = 3;

  ValueId Scores() {
    const ValueId k = Emit(Op::kTranspose, {Input("k", {2, 4, kSteps, 8})},
                           TransposeAttributes{{0, 1, 3, 2}});
    const ValueId q = Input("q", {2, 4, kSteps, 8});
    const ValueId scores =
        Emit(Op::kBatchMatMul, {q, k}, BatchMatMulAttributes{});
    return Binary(BinaryFunction::kDivide, scores, Number(2));
  }
  ValueId Attend(ValueId scores) {
    return Emit(Op::kBatchMatMul,
                {Emit(Op::kSoftmax, {scores}), Input("v", {2, 4, kSteps, 8})},
                BatchMatMulAttributes{});
  }
  std::vector<double> Future(double hidden) {
    return {0, hidden, hidden, 0, 0, hidden, 0, 0, 0};
  }
  const AttentionAttributes& Attributes() {
    return graph_.nodes().back().get<AttentionAttributes>();
  }
};

TEST_F(RaiseAttentionTest, Plain) {
  Finish(Attend(Scores()));
  ASSERT_THAT(Ops(), ElementsAre("attention"));
  EXPECT_EQ(Attributes().scale, 0.5);
  EXPECT_FALSE(Attributes().causal);
}

TEST_F(RaiseAttentionTest, WithAMask) {
  const ValueId mask = Input("mask", {2, 1, 1, kSteps});
  Finish(Attend(Add(Scores(), mask)));
  ASSERT_THAT(Ops(), ElementsAre("attention"));
  EXPECT_EQ(graph_.nodes()[0].inputs.size(), 4u);
}

TEST_F(RaiseAttentionTest, AConstantThatHidesTheFutureIsCausal) {
  const ValueId mask =
      builder_.Constant(F({kSteps, kSteps}), Future(-INFINITY));
  Finish(Attend(Add(Scores(), mask)));
  ASSERT_THAT(Ops(), ElementsAre("attention"));
  EXPECT_TRUE(Attributes().causal);
  EXPECT_EQ(graph_.nodes()[0].inputs.size(), 3u);
}

TEST_F(RaiseAttentionTest, AConditionBecomesAMaskOrCausal) {
  const ValueId hidden =
      builder_.Constant({DType::kBool, {1, 1, kSteps, kSteps}}, Future(1));
  const ValueId scores = Scores();
  Finish(Attend(Emit(Op::kWhere, {hidden, Number(-INFINITY), scores})));
  ASSERT_THAT(Ops(), ElementsAre("attention"));
  EXPECT_TRUE(Attributes().causal);
}

TEST_F(RaiseAttentionTest, AnInputAsConditionIsAMask) {
  const ValueId seen = *builder_.Input("seen", {DType::kBool, {2, 1, 1, 3}});
  const ValueId scores = Scores();
  Finish(Attend(Emit(Op::kWhere, {seen, scores, Number(-1e30)})));
  EXPECT_THAT(Ops(), ElementsAre("where", "attention"));
}

TEST_F(RaiseAttentionTest, AMildFillIsNoMask) {
  const ValueId seen = *builder_.Input("seen", {DType::kBool, {2, 1, 1, 3}});
  const ValueId scores = Scores();
  Finish(Attend(Emit(Op::kWhere, {seen, scores, Number(-100)})));
  EXPECT_THAT(Ops(), ::testing::Not(::testing::Contains("attention")));
}

TEST_F(RaiseAttentionTest, KeepsTheLogOfTheSumForTheGradient) {
  graph_.AddOutput("loss", Attend(Scores()));
  Run(RaisePatterns);
  ASSERT_THAT(Ops(), ElementsAre("attention"));
  EXPECT_TRUE(Attributes().with_lse);
}

TEST_F(RaiseAttentionTest, WeightsThatAreAnOutputKeepTheNodes) {
  const ValueId weights = Emit(Op::kSoftmax, {Scores()});
  graph_.AddOutput("weights", weights);
  Finish(Emit(Op::kBatchMatMul, {weights, Input("v", {2, 4, kSteps, 8})},
              BatchMatMulAttributes{}));
  EXPECT_THAT(Ops(), ElementsAre("batch_matmul", "softmax", "batch_matmul"));
}

}  // namespace
}  // namespace gpupool::engine
