#include "engine/graph/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

using ::testing::HasSubstr;

const TensorType kVerifiedType{DType::kFloat32, {2, 2}};

// The graph is x -> relu -> a -> tanh -> b (output). w is updated by w + b.
class VerifyTest : public ::testing::Test {
 protected:
  VerifyTest() {
    GraphBuilder builder(&graph_);
    x_ = *builder.Input("x", kVerifiedType);
    w_ = *builder.Persistent("w", kVerifiedType, MemoryClass::kWeight);
    a_ = *builder.EmitOne(Op::kRelu, {x_});
    b_ = *builder.EmitOne(Op::kTanh, {a_});
    new_w_ = *builder.EmitOne(Op::kAdd, {w_, b_});
    EXPECT_TRUE(builder.Update(new_w_, w_).ok());
    graph_.AddOutput("out", b_);
  }

  void ExpectBroken(const std::string& text) {
    const absl::Status status = Verify(graph_);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
    EXPECT_THAT(status.message(), HasSubstr(text));
  }

  Node& node(size_t i) { return graph_.mutable_nodes()[i]; }
  Value& value(ValueId id) { return graph_.mutable_value(id); }

  Graph graph_;
  ValueId x_, w_, a_, b_, new_w_;
};

TEST_F(VerifyTest, AcceptsASoundGraph) {
  EXPECT_TRUE(Verify(graph_).ok()) << Verify(graph_);
}

TEST_F(VerifyTest, FindsUnknownValues) {
  node(0).inputs[0] = ValueId{99};
  ExpectBroken("unknown value");
}

TEST_F(VerifyTest, FindsReadsBeforeWrites) {
  std::swap(node(0), node(1));
  ExpectBroken("before it is written");
}

TEST_F(VerifyTest, FindsSecondWriters) {
  node(1).outputs[0] = a_;
  ExpectBroken("again");
}

TEST_F(VerifyTest, FindsValuesThatNobodyWrites) {
  graph_.mutable_outputs().clear();
  graph_.mutable_nodes().clear();
  ExpectBroken("nobody writes");
}

TEST_F(VerifyTest, FindsWrongTypes) {
  value(a_).dtype = DType::kFloat64;
  ExpectBroken("relu");
}

TEST_F(VerifyTest, FindsEqualNames) {
  value(a_).name = "x";
  ExpectBroken("named 'x'");
}

TEST_F(VerifyTest, FindsReadersOfAnUpdatedValue) {
  node(1).inputs[0] = w_;  // b = tanh(w)
  EXPECT_TRUE(Verify(graph_).ok()) << Verify(graph_);
  Node late = node(1);
  late.outputs[0] = graph_.AddValue({.name = "late",
                                     .dtype = kVerifiedType.dtype,
                                     .shape = kVerifiedType.shape});
  graph_.AddNode(late);
  ExpectBroken("after it was overwritten");
}

TEST_F(VerifyTest, FindsTwoUpdatesOfOneValue) {
  GraphBuilder builder(&graph_);
  const ValueId again = *builder.EmitOne(Op::kAdd, {w_, b_});
  value(again).alias = {AliasKind::kUpdate, w_};
  EXPECT_FALSE(Verify(graph_).ok());
}

TEST_F(VerifyTest, InPlaceIsFineWhenNobodyElseReads) {
  value(b_).alias = {AliasKind::kInPlace, a_};
  EXPECT_TRUE(Verify(graph_).ok()) << Verify(graph_);
}

TEST_F(VerifyTest, FindsInPlaceOverAValueThatIsStillRead) {
  value(b_).alias = {AliasKind::kInPlace, a_};
  node(2).inputs[1] = a_;
  ExpectBroken("after it was overwritten");
}

TEST_F(VerifyTest, FindsInPlaceOverAnOutputOrAnInput) {
  value(b_).alias = {AliasKind::kInPlace, a_};
  graph_.AddOutput("also", a_);
  ExpectBroken("overwrites the output");
  graph_.mutable_outputs().pop_back();
  value(b_).alias = {};
  value(a_).alias = {AliasKind::kInPlace, x_};
  ExpectBroken("must not overwrite 'x'");
}

TEST_F(VerifyTest, FindsReadersOfAViewOfAnOverwrittenValue) {
  GraphBuilder builder(&graph_);
  Node reshape{
      .op = Op::kReshape, .attributes = ShapeAttributes{{4}}, .inputs = {a_}};
  Value flat{.name = "flat", .shape = {4}};
  flat.alias = {AliasKind::kView, a_};
  const ValueId view = graph_.AddValue(flat);
  reshape.outputs = {view};
  auto& nodes = graph_.mutable_nodes();
  nodes.insert(nodes.begin() + 1, reshape);
  value(b_).alias = {AliasKind::kInPlace, a_};
  EXPECT_TRUE(Verify(graph_).ok()) << Verify(graph_);
  ASSERT_TRUE(builder.EmitOne(Op::kRelu, {view}).ok());
  ExpectBroken("reads 'flat' after it was overwritten");
}

TEST_F(VerifyTest, FindsLoadNodesThatReadInputsOrComeLate) {
  node(2).stage = Stage::kLoad;
  ExpectBroken("loads after a step node");
  node(2).stage = Stage::kStep;
  node(0).stage = Stage::kLoad;
  ExpectBroken("at load time");
}

TEST_F(VerifyTest, FindsMixedLayouts) {
  Graph graph;
  GraphBuilder builder(&graph);
  const TensorType image{DType::kFloat32, {1, 2, 3, 3}};
  const ValueId x = *builder.Input("x", image);
  const ValueId y = *builder.EmitOne(Op::kRelu, {x});
  graph.mutable_value(y).layout = Layout::kChannelsLast;
  EXPECT_THAT(Verify(graph).message(), HasSubstr("wrong layout"));
}

}  // namespace
}  // namespace gpupool::engine
