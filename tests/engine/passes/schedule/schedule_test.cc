#include "engine/passes/schedule/schedule.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class ScheduleTest : public testing::PassTest {
 protected:
  ValueId Sum(ValueId x) {
    return Emit(Op::kReduce, {x},
                ReduceAttributes{ReduceFunction::kSum, {0}, true});
  }
  ValueId Wide(ValueId x) {
    return Emit(Op::kBroadcast, {x}, ShapeAttributes{Shape{1000, 64}});
  }
};

// Two wide values need not be live at the same time.
TEST_F(ScheduleTest, WideValuesDoNotWaitForEachOther) {
  const ValueId a = Wide(Input("a", {1, 64}));
  const ValueId b = Wide(Input("b", {1, 64}));
  graph_.AddOutput("a", Sum(a));
  graph_.AddOutput("b", Sum(b));
  Run(Schedule);
  EXPECT_THAT(Ops(), ElementsAre("broadcast", "reduce", "broadcast", "reduce"));
}

TEST_F(ScheduleTest, KeepsAnOrderThatNoOtherBeats) {
  const ValueId x = Input("x", {4, 4});
  const ValueId a = Emit(Op::kRelu, {x});
  const ValueId b = Emit(Op::kTanh, {x});
  graph_.AddOutput("out", Emit(Op::kAdd, {a, b}));
  Run(Schedule);
  EXPECT_THAT(Ops(), ElementsAre("relu", "tanh", "add"));
}

TEST_F(ScheduleTest, UpdatesWaitForReadersOfTheOldValue) {
  const ValueId w = Weight("w", {1, 64});
  const ValueId next = Emit(Op::kRelu, {w});
  const ValueId first = Wide(Input("a", {1, 64}));
  const ValueId read = Emit(Op::kAdd, {Sum(first), w});
  graph_.AddOutput("out", Sum(Wide(read)));
  ASSERT_TRUE(builder_.Update(Emit(Op::kAdd, {next, w}), w).ok());
  Run(Schedule);
}

}  // namespace
}  // namespace gpupool::engine
