#include "engine/passes/mark_aliases.h"

#include <gmock/gmock.h>

#include "tests/engine/passes/pass_testing.h"

namespace gpupool::engine {
namespace {

class MarkAliasesTest : public testing::PassTest {
 protected:
  AliasKind KindOf(ValueId id) { return graph_.value(id).alias.kind; }
};

TEST_F(MarkAliasesTest, ReshapesBecomeViews) {
  const ValueId a = Emit(Op::kRelu, {Input("x", {2, 3})});
  const ValueId flat = Emit(Op::kReshape, {a}, ShapeAttributes{{6}});
  graph_.AddOutput("out", flat);
  Run(MarkAliases);
  EXPECT_EQ(KindOf(flat), AliasKind::kView);
}

TEST_F(MarkAliasesTest, AnElementwiseResultTakesADyingInput) {
  const ValueId a = Emit(Op::kRelu, {Input("x", {2, 3})});
  const ValueId b = Emit(Op::kTanh, {a});
  graph_.AddOutput("out", b);
  Run(MarkAliases);
  EXPECT_EQ(KindOf(a), AliasKind::kNone);  // the input is the caller's
  EXPECT_EQ(KindOf(b), AliasKind::kInPlace);
}

TEST_F(MarkAliasesTest, NothingThatIsStillReadIsOverwritten) {
  const ValueId a = Emit(Op::kRelu, {Input("x", {2, 3})});
  const ValueId b = Emit(Op::kTanh, {a});
  const ValueId sum = Emit(Op::kAdd, {a, b});
  graph_.AddOutput("out", sum);
  Run(MarkAliases);
  EXPECT_EQ(KindOf(b), AliasKind::kNone);
  EXPECT_EQ(KindOf(sum), AliasKind::kInPlace);
}

TEST_F(MarkAliasesTest, AViewThatIsStillReadProtectsItsBytes) {
  const ValueId a = Emit(Op::kRelu, {Input("x", {2, 3})});
  const ValueId flat = Emit(Op::kReshape, {a}, ShapeAttributes{{6}});
  const ValueId b = Emit(Op::kTanh, {a});
  graph_.AddOutput("b", b);
  graph_.AddOutput("c", Emit(Op::kSigmoid, {flat}));
  Run(MarkAliases);
  EXPECT_EQ(KindOf(b), AliasKind::kNone);
}

TEST_F(MarkAliasesTest, OutputsAreNotOverwritten) {
  const ValueId a = Emit(Op::kRelu, {Input("x", {2, 3})});
  const ValueId b = Emit(Op::kTanh, {a});
  graph_.AddOutput("a", a);
  graph_.AddOutput("b", b);
  Run(MarkAliases);
  EXPECT_EQ(KindOf(b), AliasKind::kNone);
}

TEST_F(MarkAliasesTest, AConversionThatMovesNothingIsAView) {
  for (int64_t channels : {1, 2}) {
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    const ValueId x = Input("x", {1, channels, 3, 3});
    const ValueId y =
        Emit(Op::kLayoutConvert, {x}, LayoutAttributes{Layout::kChannelsLast});
    graph_.mutable_value(y).layout = Layout::kChannelsLast;
    graph_.AddOutput("out", Emit(Op::kGlobalAvgPool, {y}));
    Run(MarkAliases);
    EXPECT_EQ(KindOf(y), channels == 1 ? AliasKind::kView : AliasKind::kNone);
  }
}

TEST_F(MarkAliasesTest, WeightsAreNeverOverwrittenInPlace) {
  const ValueId y = Emit(Op::kRelu, {Weight("w", {3})});
  graph_.AddOutput("out", y);
  Run(MarkAliases);
  EXPECT_EQ(KindOf(y), AliasKind::kNone);
}

}  // namespace
}  // namespace gpupool::engine
