#include "engine/passes/schedule/schedule_all_reduces.h"

#include <gmock/gmock.h>

#include <algorithm>

#include "engine/passes/schedule/schedule.h"
#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class ScheduleAllReducesTest : public testing::PassTest {
 protected:
  ValueId Start(const ValueIds& gradients) {
    return Emit(Op::kAllReduceStart, gradients, AllReduceAttributes{2, {}});
  }
  ValueId Wait(ValueId flat, const Shape& shape) {
    return Emit(Op::kAllReduceWait, {flat}, AllReduceAttributes{2, {shape}});
  }
};

// Starts and waits are first added at the end.
TEST_F(ScheduleAllReducesTest, StartsFollowTheirGradientsAndWaitsComeLast) {
  const ValueId x = Input("x", {3});
  const ValueId v = Weight("v", {3}), w = Weight("w", {3});
  const ValueId first = Emit(Op::kRelu, {x});
  const ValueId second = Emit(Op::kTanh, {first});
  const ValueId flat = Start({first}), flat2 = Start({second});
  const ValueId mean = Wait(flat, {3}), mean2 = Wait(flat2, {3});
  ASSERT_TRUE(builder_
                  .Update(Emit(Op::kBinary, {v, mean},
                               BinaryAttributes{BinaryFunction::kAdd}),
                          v)
                  .ok());
  ASSERT_TRUE(builder_.Update(Emit(Op::kAdd, {w, mean2}), w).ok());
  Run(Schedule);
  EXPECT_THAT(Ops(), ElementsAre("relu", "all_reduce_start", "tanh",
                                 "all_reduce_start", "all_reduce_wait",
                                 "binary", "all_reduce_wait", "add"));
}

TEST_F(ScheduleAllReducesTest, StartsKeepTheirOrderOnAllRanks) {
  const ValueId x = Input("x", {3});
  const ValueId early = Emit(Op::kRelu, {x});
  const ValueId late = Emit(Op::kTanh, {early});
  const ValueId flat = Start({late}), flat2 = Start({early});
  graph_.AddOutput("late", Wait(flat, {3}));
  graph_.AddOutput("early", Wait(flat2, {3}));
  Run(Schedule);
  EXPECT_THAT(
      Ops(), ElementsAre("relu", "tanh", "all_reduce_start", "all_reduce_start",
                         "all_reduce_wait", "all_reduce_wait"));
  EXPECT_EQ(graph_.nodes()[2].inputs[0], graph_.nodes()[1].outputs[0]);
}

TEST_F(ScheduleAllReducesTest, WhatNeedsNoMeanRunsWhileSumsAreOnTheirWay) {
  const ValueId x = Input("x", {3});
  const ValueId w = Weight("w", {3}), state = Weight("state", {3});
  const ValueId flat = Start({x});
  const ValueId mean = Wait(flat, {3});
  const ValueId stepped = Emit(Op::kAdd, {w, mean});
  ASSERT_TRUE(builder_.Update(stepped, w).ok());
  graph_.AddOutput("out", Emit(Op::kTanh, {stepped}));
  ASSERT_TRUE(builder_.Update(Emit(Op::kSigmoid, {state}), state).ok());
  Run(Schedule);
  EXPECT_THAT(Ops(), ElementsAre("all_reduce_start", "sigmoid",
                                 "all_reduce_wait", "add", "tanh"));
}

TEST_F(ScheduleAllReducesTest, AnUpdateStaysBehindReadersOfTheOldValue) {
  const ValueId x = Input("x", {3});
  const ValueId v = Weight("v", {3}), w = Weight("w", {3});
  const ValueId flat = Start({x});
  const ValueId mean = Wait(flat, {3});
  ASSERT_TRUE(builder_.Update(Emit(Op::kAdd, {mean, v}), w).ok());
  // This node reads no mean, but must not overwrite an input of the sum above.
  ASSERT_TRUE(builder_.Update(Emit(Op::kTanh, {v}), v).ok());
  const std::vector<int> order =
      AllReduceOrder(graph_).Arrange({0, 1, 2, 3}, 0);
  EXPECT_THAT(order, ElementsAre(0, 1, 2, 3));
}

TEST_F(ScheduleAllReducesTest, OtherGraphsAreLeftAlone) {
  const ValueId x = Input("x", {3});
  graph_.AddOutput("a", Emit(Op::kRelu, {x}));
  graph_.AddOutput("b", Emit(Op::kTanh, {x}));
  EXPECT_THAT(AllReduceOrder(graph_).Arrange({1, 0}, 0), ElementsAre(1, 0));
}

}  // namespace
}  // namespace gpupool::engine
