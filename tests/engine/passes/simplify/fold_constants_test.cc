#include "engine/passes/simplify/fold_constants.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class FoldConstantsTest : public testing::PassTest {};

TEST_F(FoldConstantsTest, ComputesChainsOfConstants) {
  const ValueId a = builder_.Constant(F({3}), {1, -2, 3});
  const ValueId b = builder_.Constant(F({3}), {10});
  const ValueId sum = Emit(Op::kAdd, {Emit(Op::kRelu, {a}), b});
  graph_.AddOutput("out", sum);
  Run(FoldConstants);
  EXPECT_THAT(Ops(), IsEmpty());
  const Value& value = graph_.value(*graph_.FindOutput("out"));
  EXPECT_EQ(value.kind, ValueKind::kConstant);
  EXPECT_THAT(value.constant, ElementsAre(11, 10, 13));
}

TEST_F(FoldConstantsTest, LeavesWhatDependsOnInputsOrWeights) {
  const ValueId c = builder_.Constant(F({3}), {1});
  const ValueId x = Emit(Op::kAdd, {Input("x", {3}), c});
  graph_.AddOutput("out", Emit(Op::kAdd, {x, Weight("w", {3})}));
  Run(FoldConstants);
  EXPECT_THAT(Ops(), ElementsAre("add", "add"));
}

TEST_F(FoldConstantsTest, LeavesResultsThatWouldBloatTheGraph) {
  const ValueId c = builder_.Constant(F({kMaxFoldedElements + 1}), {1});
  graph_.AddOutput("out", Emit(Op::kRelu, {c}));
  Run(FoldConstants);
  EXPECT_THAT(Ops(), ElementsAre("relu"));
}

TEST_F(FoldConstantsTest, LeavesConstantsThatNoMemoryHolds) {
  const ValueId c = builder_.Constant(F({int64_t{1} << 40}), {1});
  graph_.AddOutput("out", Emit(Op::kReduce, {c},
                               ReduceAttributes{ReduceFunction::kSum, {0}}));
  Run(FoldConstants);
  EXPECT_THAT(Ops(), ElementsAre("reduce"));
}

TEST_F(FoldConstantsTest, LeavesNodesBeyondTheWorkOfAllFoldedOnes) {
  const ValueId a = builder_.Constant(F({256, 1 << 14}), {1});
  const ValueId b = builder_.Constant(F({1 << 14, 256}), {1});
  graph_.AddOutput("out", Emit(Op::kMatMul, {a, b}, MatMulAttributes{}));
  Run(FoldConstants);
  EXPECT_THAT(Ops(), ElementsAre("matmul"));
}

TEST_F(FoldConstantsTest, TakesOutReshapesThatChangeNothing) {
  const ValueId x = Input("x", {2, 3});
  const ValueId flat = Emit(Op::kReshape, {x}, ShapeAttributes{{6}});
  const ValueId back = Emit(Op::kReshape, {flat}, ShapeAttributes{{2, 3}});
  graph_.AddOutput("out", Emit(Op::kRelu, {back}));
  Run(FoldConstants);
  EXPECT_EQ(graph_.nodes().back().inputs[0], x);
}

TEST_F(FoldConstantsTest, JoinsReshapesOfReshapes) {
  const ValueId x = Input("x", {2, 3, 4});
  const ValueId a = Emit(Op::kReshape, {x}, ShapeAttributes{{6, 4}});
  graph_.AddOutput("out", Emit(Op::kReshape, {a}, ShapeAttributes{{24}}));
  Run(FoldConstants);
  EXPECT_EQ(graph_.nodes().back().inputs[0], x);
}

}  // namespace
}  // namespace gpupool::engine
