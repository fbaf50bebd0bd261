#include "engine/passes/rewrite/rewrite.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class RewriteTest : public testing::PassTest {};

TEST_F(RewriteTest, ReplacementsAreFollowedToTheEnd) {
  const ValueId a = Input("a", {1});
  const ValueId b = Input("b", {1});
  const ValueId c = Input("c", {1});
  Emit(Op::kRelu, {a});
  graph_.AddOutput("out", a);
  std::vector<ValueId> replaced = Identity(graph_);
  replaced[0] = b;
  replaced[1] = c;
  EXPECT_EQ(Resolve(replaced, a), c);
  ApplyReplacements(graph_, replaced);
  EXPECT_EQ(graph_.nodes()[0].inputs[0], c);
  EXPECT_EQ(*graph_.FindOutput("out"), c);
}

TEST_F(RewriteTest, DropsTheMarkedNodes) {
  const ValueId a = Input("a", {1});
  Emit(Op::kRelu, {a});
  Emit(Op::kTanh, {a});
  DropNodes(graph_, {true, false});
  EXPECT_THAT(Ops(), ElementsAre("tanh"));
}

TEST_F(RewriteTest, KnowsUpdaters) {
  const ValueId w = Weight("w", {1});
  EXPECT_FALSE(HasUpdates(graph_));
  Emit(Op::kTanh, {w});
  ASSERT_TRUE(builder_.Update(Emit(Op::kRelu, {w}), w).ok());
  EXPECT_TRUE(HasUpdates(graph_));
  EXPECT_EQ(Updaters(graph_)[static_cast<size_t>(w.index)], 1);
}

}  // namespace
}  // namespace gpupool::engine
