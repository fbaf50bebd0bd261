#include "engine/passes/schedule/schedule_loads.h"

#include <gmock/gmock.h>

#include "engine/passes/schedule/hoist.h"
#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class ScheduleLoadsTest : public testing::PassTest {
 protected:
  ValueId Rounded(ValueId x) {
    return Emit(Op::kCast, {x}, CastAttributes{DType::kBFloat16});
  }
  ValueId Squared(ValueId x) { return Emit(Op::kAdd, {x, x}); }
};

TEST_F(ScheduleLoadsTest, AWeightIsRoundedBeforeTheNextIsTouched) {
  const ValueId a = Squared(Weight("a", {3}));
  const ValueId b = Emit(Op::kTanh, {Weight("b", {3})});
  const ValueId y = Emit(Op::kRelu, {Input("x", {3})});
  graph_.AddOutput("a", Emit(Op::kSigmoid, {Rounded(a)}));
  graph_.AddOutput("b", Emit(Op::kSigmoid, {Rounded(b)}));
  graph_.AddOutput("y", y);
  Run(Hoist);
  ASSERT_THAT(Ops(), ElementsAre("add", "tanh", "cast", "cast", "relu",
                                 "sigmoid", "sigmoid"));
  Run(ScheduleLoads);
  EXPECT_THAT(Ops(), ElementsAre("add", "cast", "tanh", "cast", "relu",
                                 "sigmoid", "sigmoid"));
}

TEST_F(ScheduleLoadsTest, WhatTwoReadIsMadeOnceBeforeBoth) {
  const ValueId shared = Squared(Weight("a", {3}));
  const ValueId left = Emit(Op::kTanh, {shared});
  const ValueId right = Emit(Op::kRelu, {shared});
  const ValueId x = Input("x", {3});
  graph_.AddOutput("l", Emit(Op::kAdd, {x, left}));
  graph_.AddOutput("r", Emit(Op::kAdd, {x, right}));
  Run(Hoist);
  Run(ScheduleLoads);
  EXPECT_THAT(Ops(), ElementsAre("add", "tanh", "relu", "add", "add"));
}

TEST_F(ScheduleLoadsTest, AGraphWithoutLoadNodesStays) {
  graph_.AddOutput("y", Emit(Op::kTanh, {Emit(Op::kRelu, {Input("x", {3})})}));
  Run(ScheduleLoads);
  EXPECT_THAT(Ops(), ElementsAre("relu", "tanh"));
}

}  // namespace
}  // namespace gpupool::engine
