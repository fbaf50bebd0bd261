#include "engine/passes/simplify/merge_equal.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class MergeEqualTest : public testing::PassTest {};

TEST_F(MergeEqualTest, EqualChainsBecomeOne) {
  const ValueId x = Input("x", {3});
  const ValueId a = Emit(Op::kTanh, {Emit(Op::kRelu, {x})});
  const ValueId b = Emit(Op::kTanh, {Emit(Op::kRelu, {x})});
  graph_.AddOutput("out", Emit(Op::kAdd, {a, b}));
  Run(MergeEqualNodes);
  EXPECT_THAT(Ops(), ElementsAre("relu", "tanh", "add"));
}

TEST_F(MergeEqualTest, AttributesTellNodesApart) {
  const ValueId x = Input("x", {3});
  const ValueId a = Emit(Op::kGelu, {x}, GeluAttributes{false});
  const ValueId b = Emit(Op::kGelu, {x}, GeluAttributes{true});
  graph_.AddOutput("out", Emit(Op::kAdd, {a, b}));
  Run(MergeEqualNodes);
  EXPECT_THAT(Ops(), ElementsAre("gelu", "gelu", "add"));
}

TEST_F(MergeEqualTest, UpdatesStayApart) {
  const ValueId g = Input("g", {3});
  const ValueId w = Weight("w", {3});
  const ValueId v = Weight("v", {3});
  for (ValueId target : {w, v}) {
    const ValueId sum = Emit(Op::kAdd, {g, g});
    ASSERT_TRUE(Verify(graph_).ok());
    graph_.AddOutput(graph_.value(target).name, sum);
  }
  const ValueId new_w = Emit(Op::kAdd, {w, g});
  ASSERT_TRUE(builder_.Update(new_w, w).ok());
  const ValueId old_w = Emit(Op::kAdd, {v, g});
  graph_.AddOutput("out", old_w);
  Run(MergeEqualNodes);
  EXPECT_THAT(Ops(), ElementsAre("add", "add", "add"));
}

TEST_F(MergeEqualTest, OutputsAreRedirected) {
  const ValueId x = Input("x", {3});
  graph_.AddOutput("a", Emit(Op::kRelu, {x}));
  graph_.AddOutput("b", Emit(Op::kRelu, {x}));
  Run(MergeEqualNodes);
  EXPECT_EQ(*graph_.FindOutput("a"), *graph_.FindOutput("b"));
}

}  // namespace
}  // namespace gpupool::engine
