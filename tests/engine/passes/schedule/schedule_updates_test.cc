#include "engine/passes/schedule/schedule_updates.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class ScheduleUpdatesTest : public testing::PassTest {};

TEST_F(ScheduleUpdatesTest, AnUpdateMovesBehindItsInputs) {
  const ValueId x = Input("x", {3});
  const ValueId w = Weight("w", {3});
  const ValueId g = Emit(Op::kRelu, {x});
  graph_.AddOutput("out", Emit(Op::kTanh, {x}));
  ASSERT_TRUE(builder_.Update(Emit(Op::kAdd, {w, g}), w).ok());
  Run(ScheduleUpdates);
  EXPECT_THAT(Ops(), ElementsAre("relu", "add", "tanh"));
}

TEST_F(ScheduleUpdatesTest, AnUpdateWaitsForOtherReaders) {
  const ValueId x = Input("x", {3});
  const ValueId w = Weight("w", {3});
  const ValueId g = Emit(Op::kRelu, {x});
  const ValueId y = Emit(Op::kTanh, {w});
  graph_.AddOutput("out", Emit(Op::kSigmoid, {y}));
  ASSERT_TRUE(builder_.Update(Emit(Op::kAdd, {w, g}), w).ok());
  Run(ScheduleUpdates);
  EXPECT_THAT(Ops(), ElementsAre("relu", "tanh", "add", "sigmoid"));
}

}  // namespace
}  // namespace gpupool::engine
