#include "engine/plan/liveness.h"

#include <gtest/gtest.h>

#include "engine/graph/builder.h"

namespace gpupool::engine {
namespace {

constexpr DType kFloat = DType::kFloat32;

class LivenessTest : public ::testing::Test {
 protected:
  void Alias(ValueId value, AliasKind kind, ValueId of) {
    graph_.mutable_value(value).alias = {kind, of};
  }

  Graph graph_;
  GraphBuilder builder_{&graph_};
};

TEST_F(LivenessTest, AValueLivesFromItsWriterToItsLastReader) {
  const ValueId x = *builder_.Input("x", {kFloat, {8}});
  const ValueId a = *builder_.EmitOne(Op::kRelu, {x});
  const ValueId b = *builder_.EmitOne(Op::kTanh, {a});
  const ValueId c = *builder_.EmitOne(Op::kAdd, {a, b});
  graph_.AddOutput("c", c);
  const Liveness live = AnalyseLiveness(graph_);
  EXPECT_EQ(live.of(x).lifetime.first, 0);
  EXPECT_EQ(live.of(x).lifetime.last, 0);
  EXPECT_EQ(live.of(a).lifetime.first, 0);
  EXPECT_EQ(live.of(a).lifetime.last, 2);
  EXPECT_EQ(live.of(b).lifetime.last, 2);
  EXPECT_EQ(live.of(c).lifetime.last, 3);
  EXPECT_EQ(live.of(c).bytes, 32u);
}

TEST_F(LivenessTest, ViewsAndInPlaceResultsAreOneBuffer) {
  const ValueId x = *builder_.Input("x", {kFloat, {2, 4}});
  const ValueId a = *builder_.EmitOne(Op::kRelu, {x});
  const ValueId b =
      *builder_.EmitOne(Op::kReshape, {a}, ShapeAttributes{Shape{8}});
  const ValueId c = *builder_.EmitOne(Op::kTanh, {b});
  Alias(b, AliasKind::kView, a);
  Alias(c, AliasKind::kInPlace, b);
  graph_.AddOutput("c", c);
  const Liveness live = AnalyseLiveness(graph_);
  EXPECT_EQ(live.buffers.size(), 2u);
  EXPECT_EQ(live.of(c).root, a);
  EXPECT_EQ(live.of(a).lifetime.first, 0);
  EXPECT_EQ(live.of(a).lifetime.last, 3);
}

TEST_F(LivenessTest, UpdatesBelongToThePersistentValue) {
  const ValueId p =
      *builder_.Persistent("p", {kFloat, {4}}, MemoryClass::kWeight);
  const ValueId x = *builder_.Input("x", {kFloat, {4}});
  const ValueId next = *builder_.EmitOne(Op::kAdd, {p, x});
  Alias(next, AliasKind::kUpdate, p);
  const Liveness live = AnalyseLiveness(graph_);
  EXPECT_EQ(live.of(next).place, Place::kPersistent);
  EXPECT_EQ(live.of(next).root, p);
}

TEST_F(LivenessTest, InputsWaitForTheFirstStepNode) {
  const Shape c{4};
  std::vector<ValueId> w = {
      *builder_.Persistent("w", {kFloat, {4, 3}}, MemoryClass::kWeight)};
  for (const char* name : {"gamma", "beta", "mean", "variance"}) {
    w.push_back(*builder_.Persistent(name, {kFloat, c}, MemoryClass::kState));
  }
  builder_.SetStage(Stage::kLoad);
  const ValueIds folded =
      *builder_.Emit(Op::kFoldBatchNorm, w, NormAttributes{});
  builder_.SetStage(Stage::kStep);
  const ValueId x = *builder_.Input("x", {kFloat, {2, 3}});
  MatMulAttributes transposed;
  transposed.transpose_b = true;
  graph_.AddOutput("y",
                   *builder_.EmitOne(Op::kMatMul, {x, folded[0]}, transposed));
  const Liveness live = AnalyseLiveness(graph_);
  EXPECT_EQ(live.of(x).lifetime.first, 1);
  EXPECT_EQ(live.of(folded[0]).place, Place::kResident);
}

TEST_F(LivenessTest, WhatOnlyLoadNodesReadGoesWithThem) {
  const ValueId w =
      *builder_.Persistent("w", {kFloat, {4, 3}}, MemoryClass::kWeight);
  builder_.SetStage(Stage::kLoad);
  const ValueId turned =
      *builder_.EmitOne(Op::kTranspose, {w}, TransposeAttributes{{1, 0}});
  const ValueId viewed =
      *builder_.EmitOne(Op::kReshape, {turned}, ShapeAttributes{Shape{12}});
  Alias(viewed, AliasKind::kView, turned);
  const ValueId rounded =
      *builder_.EmitOne(Op::kCast, {viewed}, CastAttributes{DType::kBFloat16});
  builder_.SetStage(Stage::kStep);
  const ValueId x = *builder_.Input("x", {DType::kBFloat16, {12}});
  graph_.AddOutput("y", *builder_.EmitOne(Op::kAdd, {x, rounded}));
  const Liveness live = AnalyseLiveness(graph_);
  EXPECT_EQ(live.of(turned).place, Place::kArena);
  EXPECT_EQ(live.of(turned).lifetime.first, 0);
  EXPECT_EQ(live.of(turned).lifetime.last, 2);
  EXPECT_FALSE(live.of(turned).lifetime.Overlaps(live.of(x).lifetime));
  EXPECT_EQ(live.of(rounded).place, Place::kResident);
}

// A view that steps read keeps the value behind it resident.
TEST_F(LivenessTest, WhatStepsReadByAViewStaysResident) {
  const ValueId w =
      *builder_.Persistent("w", {kFloat, {4, 3}}, MemoryClass::kWeight);
  builder_.SetStage(Stage::kLoad);
  const ValueId turned =
      *builder_.EmitOne(Op::kTranspose, {w}, TransposeAttributes{{1, 0}});
  const ValueId viewed =
      *builder_.EmitOne(Op::kReshape, {turned}, ShapeAttributes{Shape{12}});
  Alias(viewed, AliasKind::kView, turned);
  builder_.SetStage(Stage::kStep);
  const ValueId x = *builder_.Input("x", {kFloat, {12}});
  graph_.AddOutput("y", *builder_.EmitOne(Op::kAdd, {x, viewed}));
  EXPECT_EQ(AnalyseLiveness(graph_).of(turned).place, Place::kResident);
}

TEST_F(LivenessTest, ValuesWithoutUseTakeNoRoomButDeadResultsDo) {
  const ValueId constant = builder_.Constant({kFloat, {4}}, {1});
  const ValueId x = *builder_.Input("x", {kFloat, {4}});
  const ValueId dead = *builder_.EmitOne(Op::kRelu, {x});
  const Liveness live = AnalyseLiveness(graph_);
  EXPECT_EQ(live.buffer_of[static_cast<size_t>(constant.index)], -1);
  EXPECT_EQ(live.of(dead).lifetime.first, 0);
  EXPECT_EQ(live.of(dead).lifetime.last, 0);
}

}  // namespace
}  // namespace gpupool::engine
