#include "engine/autodiff/step_tail.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/graph/builder.h"
#include "engine/graph/verify.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using namespace testing;  // NOLINT: the fixtures of this tree

// One parameter of two numbers whose gradient is an input.
class StepTailTest : public ::testing::Test {
 protected:
  void Build(const StepTailOptions& options) {
    GraphBuilder builder(&graph_);
    const TensorType type{DType::kFloat32, {2}};
    const ValueId p = *builder.Persistent("w", type, MemoryClass::kWeight);
    const ValueId g = *builder.Input("g", type);
    auto states = AddStepTail(graph_, {p}, {g}, options);
    ASSERT_TRUE(states.ok()) << states.status();
    for (const OptimizerState& state : *states) {
      values_[state.name] = {0, 0};
      names_.push_back(state.name);
    }
    ASSERT_TRUE(Verify(graph_).ok()) << Verify(graph_);
  }

  // Makes step `t` with gradient `g`; returns the parameter.
  reference::Numbers Step(int t, reference::Numbers g) {
    auto outputs = reference::Run(graph_,
                                  {{"g", std::move(g)},
                                   {"learning_rate", {0.1}},
                                   {"step", {static_cast<double>(t)}}},
                                  values_);
    EXPECT_TRUE(outputs.ok()) << outputs.status();
    return values_["w"];
  }

  void ExpectNear(const reference::Numbers& got, reference::Numbers want) {
    EXPECT_LT(Distance(got, want), 1e-6) << got[0] << " " << got[1];
  }

  Graph graph_;
  reference::NamedNumbers values_{{"w", {1, -2}}};
  std::vector<std::string> names_;
};

// The expected numbers are PyTorch's formulas of torch.optim, computed by hand.
TEST_F(StepTailTest, PlainSgdWithWeightDecay) {
  Build({.optimizer = SgdAttributes{.weight_decay = 0.5}});
  EXPECT_TRUE(names_.empty());
  ExpectNear(Step(1, {1, 2}), {1 - 0.1 * 1.5, -2 - 0.1 * 1});
}

TEST_F(StepTailTest, MomentumStartsFromTheGradientWhateverTheDampening) {
  Build({.optimizer = SgdAttributes{.momentum = 0.9, .dampening = 0.5}});
  EXPECT_THAT(names_, ElementsAre("w/momentum"));
  ExpectNear(Step(1, {1, 2}), {0.9, -2.2});
  // v = 0.9 * g1 + 0.5 * g2
  ExpectNear(Step(2, {1, 2}), {0.9 - 0.1 * 1.4, -2.2 - 0.1 * 2.8});
}

TEST_F(StepTailTest, NesterovLooksAhead) {
  Build({.optimizer = SgdAttributes{.momentum = 0.9, .nesterov = true}});
  ExpectNear(Step(1, {1, 2}), {1 - 0.1 * 1.9, -2 - 0.1 * 3.8});
  // v = 1.9, step 1 + 0.9 * 1.9 = 2.71
  ExpectNear(Step(2, {1, 2}), {0.81 - 0.271, -2.38 - 0.542});
}

TEST_F(StepTailTest, AdamMovesByTheRateAtFirst) {
  Build({.optimizer = AdamAttributes{}});
  EXPECT_THAT(names_, ElementsAre("w/adam.m", "w/adam.v"));
  ExpectNear(Step(1, {1, -3}), {0.9, -1.9});
  // m = 0.09 + 0.2 = 0.29 over 0.19; v = 0.000999 + 0.004 over 0.001999
  const double move =
      0.1 * (0.29 / 0.19) / std::sqrt((0.000999 + 0.004) / 0.001999);
  ExpectNear({Step(2, {2, -3})[0], 0}, {0.9 - move, 0});
}

TEST_F(StepTailTest, AdamAddsWeightDecayToTheGradient) {
  Build({.optimizer = AdamAttributes{.weight_decay = 1}});
  // g = 0 + p: the direction of p, whatever its size.
  ExpectNear(Step(1, {0, 0}), {0.9, -1.9});
}

TEST_F(StepTailTest, AdamWShrinksTheParameterItself) {
  Build({.optimizer = AdamAttributes{.weight_decay = 0.5, .decoupled = true}});
  ExpectNear(Step(1, {1, 1}), {1 * 0.95 - 0.1, -2 * 0.95 - 0.1});
}

TEST_F(StepTailTest, RmspropDividesByTheRunningRoot) {
  Build({.optimizer = RmspropAttributes{.alpha = 0.75}});
  EXPECT_THAT(names_, ElementsAre("w/rmsprop.v"));
  // v = 0.25 g^2, so that the first step is 0.1 * g / (0.5 |g|).
  ExpectNear(Step(1, {1, -2}), {0.8, -1.8});
  // v = 0.75 * 0.25 + 0.25 = 0.4375
  ExpectNear({Step(2, {1, -2})[0], 0}, {0.8 - 0.1 / std::sqrt(0.4375), 0});
}

TEST_F(StepTailTest, CenteredRmspropSubtractsTheSquareOfTheMean) {
  Build({.optimizer = RmspropAttributes{
             .alpha = 0.75, .momentum = 0.5, .centered = true}});
  EXPECT_THAT(names_, ElementsAre("w/rmsprop.v", "w/rmsprop.mean",
                                  "w/rmsprop.momentum"));
  // v - mean^2 = (0.25 - 0.0625) g^2
  const double first = 1 / std::sqrt(0.1875);
  ExpectNear(Step(1, {1, -2}), {1 - 0.1 * first, -2 + 0.1 * first});
  // v = 0.4375, mean = 0.4375
  const double second = 1 / std::sqrt(0.4375 - 0.4375 * 0.4375);
  ExpectNear({Step(2, {1, -2})[0], 0},
             {1 - 0.1 * first - 0.1 * (0.5 * first + second), 0});
}

TEST_F(StepTailTest, AdagradDividesByTheRootOfTheSum) {
  Build({.optimizer = AdagradAttributes{.lr_decay = 1}});
  EXPECT_THAT(names_, ElementsAre("w/adagrad.sum"));
  ExpectNear(Step(1, {3, -4}), {0.9, -1.9});
  // The rate is halved; the sums are 25 and 25.
  ExpectNear(Step(2, {4, -3}), {0.9 - 0.05 * 0.8, -1.9 + 0.05 * 0.6});
}

TEST_F(StepTailTest, LionMovesBySignsAndShrinksTheParameter) {
  Build({.optimizer =
             LionAttributes{.beta1 = 0.5, .beta2 = 0.5, .weight_decay = 0.5}});
  EXPECT_THAT(names_, ElementsAre("w/lion.m"));
  ExpectNear(Step(1, {3, -4}), {0.95 - 0.1, -1.9 + 0.1});
  // m = {1.5, -2} outweighs the gradient's sign.
  ExpectNear(Step(2, {-1, 1}), {0.85 * 0.95 - 0.1, -1.8 * 0.95 + 0.1});
}

TEST_F(StepTailTest, AdamaxDividesByTheLargestGradient) {
  Build({.optimizer = AdamaxAttributes{.beta1 = 0.5, .beta2 = 0.5}});
  EXPECT_THAT(names_, ElementsAre("w/adamax.m", "w/adamax.u"));
  // m = g / 2 over 1 - 0.5, u = |g|: the first step is the rate.
  ExpectNear(Step(1, {4, -2}), {0.9, -1.9});
  // m = 1 + 0.5 and -0.5 - 1.5 over 1 - 0.25; u = max(2, 1) and max(1, 3).
  ExpectNear(Step(2, {1, -3}),
             {0.9 - 0.1 * 2.0 / 2.0, -1.9 + 0.1 * (2.0 / 0.75) / 3.0});
}

TEST_F(StepTailTest, ParametersWithTheSameFactorShareARate) {
  GraphBuilder builder(&graph_);
  std::vector<ValueId> parameters, gradients;
  for (const char* name : {"a", "b", "c", "d"}) {
    const TensorType type{DType::kFloat32, {1}};
    parameters.push_back(*builder.Persistent(name, type, MemoryClass::kWeight));
    gradients.push_back(*builder.Input(absl::StrCat("g", name), type));
  }
  ASSERT_TRUE(AddStepTail(graph_, parameters, gradients,
                          {.optimizer = SgdAttributes{.weight_decay = 0.5},
                           .parameters = {{},
                                          {.rate_factor = 3},
                                          {.rate_factor = 3, .weight_decay = 0},
                                          {.rate_factor = 0}}})
                  .ok());
  ASSERT_TRUE(Verify(graph_).ok()) << Verify(graph_);
  EXPECT_EQ(
      std::count_if(graph_.nodes().begin(), graph_.nodes().end(),
                    [](const Node& node) { return node.op == Op::kBinary; }),
      2)
      << "one product for 3 and one for 0";
  values_ = {{"a", {1}}, {"b", {1}}, {"c", {1}}, {"d", {1}}};
  ASSERT_TRUE(reference::Run(graph_,
                             {{"ga", {1}},
                              {"gb", {1}},
                              {"gc", {1}},
                              {"gd", {1}},
                              {"learning_rate", {0.1}},
                              {"step", {1}}},
                             values_)
                  .ok());
  EXPECT_NEAR(values_["a"][0], 1 - 0.1 * 1.5, 1e-9);
  EXPECT_NEAR(values_["b"][0], 1 - 0.3 * 1.5, 1e-9);
  EXPECT_NEAR(values_["c"][0], 1 - 0.3, 1e-9);
  EXPECT_EQ(values_["d"][0], 1);
}

TEST_F(StepTailTest, ClippingReachesEveryOptimizer) {
  Build({.optimizer = AdagradAttributes{.epsilon = 1}, .clip_norm = 1});
  // The clipped gradient is {0.6, 0.8}: g / (|g| + 1).
  ExpectNear(Step(1, {3, 4}), {1 - 0.1 * 0.6 / 1.6, -2 - 0.1 * 0.8 / 1.8});
}

TEST_F(StepTailTest, ClippingScalesOnlyLongGradients) {
  Build({.optimizer = SgdAttributes{}, .clip_norm = 1});
  ExpectNear(Step(1, {3, 4}), {1 - 0.1 * 0.6, -2 - 0.1 * 0.8});
  ExpectNear(Step(2, {0.3, 0.4}), {0.94 - 0.03, -2.08 - 0.04});
}

// inf / inf is NaN, and so is the norm of a gradient with NaN.
TEST_F(StepTailTest, AClipThatIsNoNumberLeavesEverythingAsItIs) {
  Build({.optimizer = RmspropAttributes{.momentum = 0.5, .centered = true},
         .clip_norm = 1});
  Step(1, {3, 4});
  const reference::NamedNumbers before = values_;
  Step(2, {std::nan(""), 1});
  EXPECT_EQ(values_, before);
}

TEST(StepTailClipTest, TheNormIsTakenOverAllGradients) {
  Graph graph;
  GraphBuilder builder(&graph);
  std::vector<ValueId> gradients;
  for (const char* name : {"a", "b"}) {
    gradients.push_back(*builder.Input(name, {DType::kFloat32, {1}}));
  }
  graph.AddOutput("norm", *builder.EmitOne(Op::kGlobalNorm, gradients));
  reference::NamedNumbers none;
  auto outputs = reference::Run(graph, {{"a", {3}}, {"b", {4}}}, none);
  ASSERT_TRUE(outputs.ok());
  EXPECT_DOUBLE_EQ((*outputs)["norm"][0], 5);
}

}  // namespace
}  // namespace gpupool::engine
