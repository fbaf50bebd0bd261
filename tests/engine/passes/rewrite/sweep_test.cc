#include "engine/passes/rewrite/sweep.h"

#include <gmock/gmock.h>

#include "engine/base/status_macros.h"
#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class SweepTest : public testing::PassTest {};

absl::Status DropRelu(Sweep& sweep, Node& node) {
  if (node.op == Op::kRelu) sweep.Replace(node, node.inputs[0]);
  return absl::OkStatus();
}

// Replaces tanh(x) by relu(sigmoid(x)) if x has no other reader.
absl::Status ReplaceTanh(Sweep& sweep, Node& node) {
  if (node.op != Op::kTanh || !sweep.IsOnlyReaderOf(node.inputs[0])) {
    return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(ValueId y, sweep.Emit(Op::kSigmoid, {node.inputs[0]}));
  ASSIGN_OR_RETURN(y, sweep.Emit(Op::kRelu, {y}));
  sweep.Replace(node, y);
  return absl::OkStatus();
}

TEST_F(SweepTest, ReadersAndOutputsSeeWhatReplacesAValue) {
  const ValueId x = Input("x", {2});
  const ValueId y = Emit(Op::kRelu, {x});
  graph_.AddOutput("y", y);
  graph_.AddOutput("z", Emit(Op::kTanh, {Emit(Op::kRelu, {y})}));
  ASSERT_TRUE(Sweep(graph_).Run({DropRelu}).ok());
  EXPECT_THAT(Ops(), ElementsAre("tanh"));
  EXPECT_EQ(graph_.outputs()[0].value, x);
  EXPECT_THAT(graph_.nodes()[0].inputs, ElementsAre(x));
}

TEST_F(SweepTest, EmittedNodesStandWhereTheOldOneStood) {
  const ValueId y = Emit(Op::kTanh, {Input("x", {2})});
  graph_.AddOutput("z", Emit(Op::kSoftmax, {y}));
  ASSERT_TRUE(Sweep(graph_).Run({ReplaceTanh}).ok());
  EXPECT_THAT(Ops(), ElementsAre("sigmoid", "relu", "softmax"));
  graph_.Compact();
  EXPECT_TRUE(Verify(graph_).ok()) << Verify(graph_);
}

TEST_F(SweepTest, CountsOutputsAsReaders) {
  const ValueId y = Emit(Op::kSoftmax, {Input("x", {2})});
  graph_.AddOutput("y", y);
  graph_.AddOutput("z", Emit(Op::kTanh, {y}));
  Sweep sweep(graph_);
  ASSERT_TRUE(sweep.Run({ReplaceTanh}).ok());
  EXPECT_FALSE(sweep.changed());
  EXPECT_THAT(Ops(), ElementsAre("softmax", "tanh"));
}

TEST_F(SweepTest, NodesThatLostTheirReadersGo) {
  const ValueId y = Emit(Op::kSoftmax, {Input("x", {2})});
  graph_.AddOutput("z", Emit(Op::kRelu, {y}));
  graph_.mutable_outputs()[0].value = y;
  ASSERT_TRUE(Sweep(graph_).Run({DropRelu}).ok());
  EXPECT_THAT(Ops(), ElementsAre("softmax"));
}

TEST_F(SweepTest, AnUpdateKeepsItsNode) {
  const ValueId w = Weight("w", {2});
  ASSERT_TRUE(builder_.Update(Emit(Op::kRelu, {w}), w).ok());
  Run([](Graph& graph) { return Sweep(graph).Run({DropRelu}); });
  EXPECT_THAT(Ops(), ElementsAre("relu"));
}

TEST_F(SweepTest, NumbersAreConstantsOfOneNumber) {
  const ValueId one = builder_.Constant(F({2}), {1, 1});
  const ValueId two = builder_.Constant(F({2}), {1, 2});
  const ValueId x = Input("x", {2});
  const Sweep sweep(graph_);
  EXPECT_EQ(sweep.Number(one), 1.0);
  EXPECT_EQ(sweep.Number(two), std::nullopt);
  EXPECT_EQ(sweep.Number(x), std::nullopt);
}

}  // namespace
}  // namespace gpupool::engine
