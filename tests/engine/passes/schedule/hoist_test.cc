#include "engine/passes/schedule/hoist.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class HoistTest : public testing::PassTest {
 protected:
  ValueId Sine(ValueId x) {
    return Emit(Op::kUnary, {x}, UnaryAttributes{UnaryFunction::kSin});
  }
};

TEST_F(HoistTest, WhatWeightsAloneDecideMovesToTheLoadStage) {
  const ValueId x = Emit(Op::kRelu, {Input("x", {2, 2})});
  const ValueId w = Sine(Sine(Weight("w", {2, 2})));
  graph_.AddOutput("out", Emit(Op::kAdd, {x, w}));
  Run(Hoist);
  EXPECT_THAT(Ops(), ElementsAre("unary", "unary", "relu", "add"));
  EXPECT_EQ(graph_.nodes()[1].stage, Stage::kLoad);
  EXPECT_EQ(graph_.nodes()[2].stage, Stage::kStep);
  EXPECT_EQ(graph_.value(graph_.nodes()[1].outputs[0]).kind,
            ValueKind::kDerived);
}

TEST_F(HoistTest, LeavesGraphsWithUpdatesAlone) {
  const ValueId w = Weight("w", {2, 2});
  graph_.AddOutput("out", Emit(Op::kRelu, {Sine(w)}));
  ASSERT_TRUE(builder_.Update(Emit(Op::kAdd, {w, w}), w).ok());
  Run(Hoist);
  for (const Node& node : graph_.nodes()) EXPECT_EQ(node.stage, Stage::kStep);
}

TEST_F(HoistTest, DoesNotKeepWhatIsMuchLargerThanItsSource) {
  const ValueId wide = Emit(Op::kBroadcast, {Weight("w", {1024})},
                            ShapeAttributes{Shape{1024, 1024}});
  graph_.AddOutput("out", Emit(Op::kAdd, {Input("x", {1024, 1024}), wide}));
  Run(Hoist);
  EXPECT_EQ(graph_.nodes()[0].stage, Stage::kStep);
}

TEST_F(HoistTest, OutputsAreComputedWithEveryRun) {
  graph_.AddOutput("out", Sine(Weight("w", {2})));
  Run(Hoist);
  EXPECT_EQ(graph_.nodes()[0].stage, Stage::kStep);
}

}  // namespace
}  // namespace gpupool::engine
