#include "engine/autodiff/loss_scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "engine/autodiff/step_tail.h"
#include "engine/graph/verify.h"
#include "tests/engine/testing/graph_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;
using namespace testing;  // NOLINT: the fixtures of this tree

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// One parameter of two numbers. Its scaled gradient is an input.
class LossScalingTest : public ::testing::Test {
 protected:
  void Build(StepTailOptions options, const LossScaling& scaling) {
    options.loss_scaling = scaling;
    GraphBuilder builder(&graph_);
    const TensorType type{DType::kFloat32, {2}};
    const ValueId p = *builder.Persistent("w", type, MemoryClass::kWeight);
    const ValueId g = *builder.Input("g", type);
    auto states = AddStepTail(graph_, {p}, {g}, options);
    ASSERT_TRUE(states.ok()) << states.status();
    for (const OptimizerState& state : *states) values_[state.name] = {0, 0};
    values_[kLossScaleName] = {scaling.initial};
    ASSERT_TRUE(Verify(graph_).ok()) << Verify(graph_);
  }

  // Makes the next step with the unscaled gradient `g`, which is scaled here.
  void Step(reference::Numbers g) {
    for (double& x : g) x *= Scale();
    StepScaled(std::move(g));
  }
  void StepScaled(reference::Numbers g) {
    auto outputs = reference::Run(graph_,
                                  {{"g", std::move(g)},
                                   {"learning_rate", {0.1}},
                                   {"step", {static_cast<double>(++step_)}}},
                                  values_);
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_EQ((*outputs)["loss_scale"][0], Scale());
    EXPECT_EQ((*outputs)["skipped_steps"][0], Skipped());
  }

  double Scale() { return values_[kLossScaleName][0]; }
  double Growth() { return values_[kLossScaleGrowthName][0]; }
  double Skipped() { return values_[kLossScaleSkippedName][0]; }

  Graph graph_;
  int step_ = 0;
  reference::NamedNumbers values_{{"w", {1, -2}},
                                  {kLossScaleGrowthName, {0}},
                                  {kLossScaleSkippedName, {0}}};
};

TEST_F(LossScalingTest, GradientsAreDividedByTheScale) {
  Build({.optimizer = SgdAttributes{}}, {.initial = 1024});
  Step({1, 2});
  EXPECT_LT(Distance(values_["w"], {0.9, -2.2}), 1e-6);
  EXPECT_EQ(Scale(), 1024);
  EXPECT_EQ(Growth(), 1);
  EXPECT_EQ(Skipped(), 0);
}

TEST_F(LossScalingTest, AnOverflowChangesNothingButTheScale) {
  Build({.optimizer = AdamAttributes{}}, {.initial = 1024});
  Step({1, 2});
  const reference::NamedNumbers before = values_;
  for (const double bad : {kInfinity, -kInfinity, std::nan("")}) {
    SCOPED_TRACE(bad);
    values_ = before;
    StepScaled({bad, 1});
    EXPECT_EQ(Scale(), 512);
    EXPECT_EQ(Growth(), 0);
    EXPECT_EQ(Skipped(), 1);
    for (const char* name : {"w", "w/adam.m", "w/adam.v"}) {
      EXPECT_EQ(values_[name], before.at(name)) << name;
    }
  }
}

TEST_F(LossScalingTest, FiniteStepsInARowRaiseTheScale) {
  Build({.optimizer = SgdAttributes{}},
        {.initial = 8, .growth_factor = 4, .growth_interval = 3});
  Step({1, 1});
  Step({1, 1});
  StepScaled({kInfinity, 1});  // ends the finite steps in a row
  EXPECT_EQ(Scale(), 4);
  Step({1, 1});
  Step({1, 1});
  EXPECT_EQ(Scale(), 4);
  Step({1, 1});
  EXPECT_EQ(Scale(), 16);
  EXPECT_EQ(Growth(), 0);
}

TEST_F(LossScalingTest, TheScaleStaysFinite) {
  Build({.optimizer = SgdAttributes{}},
        {.initial = 0x1p127, .growth_interval = 1});
  StepScaled({0, 0});
  EXPECT_EQ(Scale(), 0x1p127);
  EXPECT_EQ(Growth(), 0);
}

// The first step that is not skipped counts as step 1.
TEST_F(LossScalingTest, SkippedStepsDoNotCountForTheOptimizer) {
  Build({.optimizer = AdamAttributes{}}, {});
  StepScaled({kInfinity, 1});
  StepScaled({1, kInfinity});
  Step({1, -3});
  EXPECT_LT(Distance(values_["w"], {0.9, -1.9}), 1e-6);
  EXPECT_EQ(Skipped(), 2);
}

TEST_F(LossScalingTest, TheNormIsThatOfTheTrueGradients) {
  Build({.optimizer = SgdAttributes{}, .clip_norm = 1}, {.initial = 1024});
  Step({3, 4});
  EXPECT_LT(Distance(values_["w"], {1 - 0.1 * 0.6, -2 - 0.1 * 0.8}), 1e-6);
  Step({0.3, 0.4});
  EXPECT_LT(Distance(values_["w"], {0.94 - 0.03, -2.08 - 0.04}), 1e-6);
}

TEST_F(LossScalingTest, SoAreTheNumbersThatAreClamped) {
  Build({.optimizer = SgdAttributes{}, .clip_value = 0.5}, {.initial = 1024});
  Step({3, -0.25});
  EXPECT_LT(Distance(values_["w"], {1 - 0.05, -2 + 0.025}), 1e-6);
}

TEST_F(LossScalingTest, ClampingHidesNoOverflow) {
  Build({.optimizer = SgdAttributes{}, .clip_value = 0.5, .clip_norm = 1}, {});
  StepScaled({kInfinity, 1});
  EXPECT_EQ(values_["w"], (reference::Numbers{1, -2}));
  EXPECT_EQ(Skipped(), 1);
}

TEST(LossScaleNameTest, IsNotTakenFromAModel) {
  Graph graph;
  GraphBuilder builder(&graph);
  ASSERT_TRUE(builder
                  .Persistent(kLossScaleName, {DType::kFloat32, {}},
                              MemoryClass::kWeight)
                  .ok());
  EXPECT_THAT(AddLossScale(builder).status().message(), HasSubstr("rename it"));
}

TEST(KeepStatisticsFiniteTest, WhatIsNotFiniteIsNotTaken) {
  Graph graph;
  GraphBuilder builder(&graph);
  const TensorType type{DType::kFloat32, {2}};
  ValueIds running, batch;
  for (const char* name : {"mean", "variance"}) {
    running.push_back(*builder.Persistent(name, type, MemoryClass::kState));
    batch.push_back(*builder.Input(std::string("batch_") + name, type));
  }
  const auto next = builder.Emit(
      Op::kBatchNormUpdate, {running[0], running[1], batch[0], batch[1]},
      BatchNormUpdateAttributes{.momentum = 0.5, .count = 2});
  ASSERT_TRUE(next.ok());
  ASSERT_TRUE(builder.Update((*next)[0], running[0]).ok());
  ASSERT_TRUE(builder.Update((*next)[1], running[1]).ok());
  ASSERT_TRUE(KeepStatisticsFinite(graph).ok());
  ASSERT_TRUE(Verify(graph).ok()) << Verify(graph);
  reference::NamedNumbers state{{"mean", {1, 1}}, {"variance", {1, 1}}};
  const auto ran = reference::Run(
      graph,
      {{"batch_mean", {kInfinity, 3}}, {"batch_variance", {1, std::nan("")}}},
      state);
  ASSERT_TRUE(ran.ok()) << ran.status();
  EXPECT_EQ(state["mean"], (reference::Numbers{1, 2}));
  EXPECT_EQ(state["variance"], (reference::Numbers{1.5, 1}))
      << "a variance is made unbiased: 2 / 1";
}

}  // namespace
}  // namespace gpupool::engine
