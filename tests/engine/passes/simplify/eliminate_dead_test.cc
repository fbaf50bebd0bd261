#include "engine/passes/simplify/eliminate_dead.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;

class EliminateDeadTest : public testing::PassTest {};

TEST_F(EliminateDeadTest, DropsChainsThatNobodyNeeds) {
  const ValueId x = Input("x", {3});
  Emit(Op::kTanh, {Emit(Op::kSigmoid, {x})});
  graph_.AddOutput("out", Emit(Op::kRelu, {x}));
  Run(EliminateDeadNodes);
  EXPECT_THAT(Ops(), ElementsAre("relu"));
  EXPECT_NE(graph_.FindValue("x"), nullptr);
}

TEST_F(EliminateDeadTest, KeepsUpdates) {
  const ValueId w = Weight("w", {3});
  ASSERT_TRUE(builder_.Update(Emit(Op::kRelu, {w}), w).ok());
  Run(EliminateDeadNodes);
  EXPECT_THAT(Ops(), ElementsAre("relu"));
}

TEST_F(EliminateDeadTest, KeepsANodeWithOneNeededOutput) {
  auto pool = builder_.Emit(Op::kMaxPool, {Input("x", {1, 1, 2, 2})},
                            Pool2dAttributes{.with_argmax = true});
  ASSERT_TRUE(pool.ok());
  graph_.AddOutput("argmax", (*pool)[1]);
  Run(EliminateDeadNodes);
  EXPECT_THAT(Ops(), ElementsAre("max_pool"));
}

}  // namespace
}  // namespace gpupool::engine
