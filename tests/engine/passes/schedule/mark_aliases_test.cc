#include "engine/passes/schedule/mark_aliases.h"

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
  EXPECT_EQ(KindOf(a), AliasKind::kNone);  // the caller owns the input
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

TEST_F(MarkAliasesTest, CellsOfAChannelsLastImageAreAView) {
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
    graph_ = Graph();
    builder_ = GraphBuilder(&graph_);
    const ValueId image = Emit(Op::kRelu, {Input("x", {1, 2, 3, 3})});
    for (const ValueId id : {graph_.nodes()[0].inputs[0], image}) {
      graph_.mutable_value(id).layout = layout;
    }
    const ValueId cells =
        Emit(Op::kTranspose, {image}, TransposeAttributes{{0, 2, 3, 1}});
    const ValueId back =
        Emit(Op::kTranspose, {cells}, TransposeAttributes{{0, 3, 1, 2}});
    graph_.mutable_value(back).layout = layout;
    graph_.AddOutput("out", Emit(Op::kGlobalAvgPool, {back}));
    Run(MarkAliases);
    const AliasKind wanted =
        layout == Layout::kChannelsLast ? AliasKind::kView : AliasKind::kNone;
    EXPECT_EQ(KindOf(cells), wanted);
    EXPECT_EQ(KindOf(back), wanted);
  }
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

TEST_F(MarkAliasesTest, AProductTakesOverItsResidualsBytes) {
  const ValueId w = Weight("w", {3, 3});
  const ValueId residual = Emit(Op::kRelu, {Input("x", {2, 3})});
  const Epilogue epilogue{.bias = true, .residual = true};
  const ValueId y =
      Emit(Op::kMatMul, {Input("z", {2, 3}), w, Weight("b", {3}), residual},
           MatMulAttributes{.epilogue = epilogue});
  graph_.AddOutput("out", y);
  Run(MarkAliases);
  EXPECT_EQ(KindOf(y), AliasKind::kInPlace);
  EXPECT_EQ(graph_.value(y).alias.of, residual);
}

TEST_F(MarkAliasesTest, AProductNeverOverwritesItsOperands) {
  const ValueId x = Emit(Op::kRelu, {Input("x", {3, 3})});
  const ValueId y =
      Emit(Op::kMatMul, {x, Weight("w", {3, 3})}, MatMulAttributes{});
  graph_.AddOutput("out", y);
  Run(MarkAliases);
  EXPECT_EQ(KindOf(y), AliasKind::kNone);
}

TEST_F(MarkAliasesTest, ResultsOfAFusedNodeTakeDifferentInputs) {
  const ValueId a = Emit(Op::kSoftmax, {Input("a", {2, 3})});
  const ValueId b = Emit(Op::kSoftmax, {Input("b", {2, 3})});
  FusedAttributes fused;
  fused.steps = {{Op::kAdd, {}, {0, 1}}, {Op::kRelu, {}, {2}}};
  fused.results = {2, 3};
  fused.shape = {2, 3};
  const auto results = builder_.Emit(Op::kFused, {a, b}, fused);
  ASSERT_TRUE(results.ok()) << results.status();
  graph_.AddOutput("first", (*results)[0]);
  graph_.AddOutput("second", (*results)[1]);
  Run(MarkAliases);
  EXPECT_EQ(graph_.value((*results)[0]).alias.of, a);
  EXPECT_EQ(graph_.value((*results)[1]).alias.of, b);
}

}  // namespace
}  // namespace gpupool::engine
